"""What a hostile manifest of up to 1 MiB costs a party: seconds of a core and memory, to parse it and to answer it.

    python benchmarks/hostile_manifests.py

Each shape in a process of its own, which reports what reading it took beyond an ordinary manifest. The policy limits
nothing, so the figures are what the parser, the schemas and the judge cost before anything is computed; a
template's policy takes 100,000 bytes. Verification comes after the limits (`parley.federation.meaning`): its own share
is the last line.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST = (1 << 20) - 4096


def bodies() -> dict[str, Callable[[dict[str, Any]], None]]:
    """Ways to fill a mebibyte."""

    def fill(entry: Callable[[int], Any], size: int) -> list[Any]:
        return [entry(n) for n in range(MOST // size)]

    def parties(body: dict[str, Any]) -> None:
        more = [{"name": f"p{n}", "sampler": {"kind": "wor", "units": 1000 + n, "batch": 5}} for n in range(9900)]
        body["parties"] += more

    def categories(body: dict[str, Any]) -> None:
        body["schema"]["features"][2]["categories"] = fill(lambda n: f"{n:x}", 9)

    def numbers(body: dict[str, Any]) -> None:
        body["schema"]["features"] = fill(lambda n: {"name": f"c{n:x}", "low": 0.0, "high": 1.0}, 52)

    def patterns(body: dict[str, Any]) -> None:
        """Short: each entry stands for many columns, and all of them for as many as may be."""
        body["schema"]["features"] = [{"name": f"c{n}_{{1..16}}", "low": 0.0, "high": 1.0} for n in range(1024)]

    def unknown(body: dict[str, Any]) -> None:
        body["schema"] |= {f"featurf{n:05x}": 1 for n in range(MOST // 17)}

    def fields(body: dict[str, Any]) -> None:
        body |= {f"mechanisn{n:05x}": 1 for n in range(MOST // 19)}
        del body["mechanism"]

    def lists(body: dict[str, Any]) -> None:
        body["regulariser"]["x"] = [[] for _ in range(MOST // 3)]

    def tables(body: dict[str, Any]) -> None:
        body["regulariser"]["x"] = [{"a": 1.5} for _ in range(MOST // 10)]

    def labels(body: dict[str, Any]) -> None:
        body["schema"]["target"]["positive"] = fill(lambda n: f"{n}.5", 11)

    return {
        "ordinary": lambda body: None,
        "9,900 parties of other sizes": parties,
        "categories": categories,
        "columns": numbers,
        "patterns of columns": patterns,
        "unknown fields of a schema": unknown,
        "unknown fields": fields,
        "empty lists": lists,
        "tables": tables,
        "labels": labels,
    }


def answer(shape: str) -> dict[str, float]:
    """In this process: parse and decide, up to verification."""
    from parley.attacks.documents import policy_text
    from parley.attacks.institution import Institution, manifest
    from parley.federation.errors import ManifestError
    from parley.federation.manifest import HEADER, Manifest
    from parley.party.admission import Gate
    from parley.party.errors import RefusedRunError

    policy = policy_text(largest_parties=10_000, largest_dimension=10**9, largest_manifest_bytes=1 << 20)
    with tempfile.TemporaryDirectory() as folder:
        institution = Institution(Path(folder) / "hospital", policy=policy)
        institution.seal()
        gate: Gate = institution.gate()
        body = manifest().as_json()
        bodies()[shape](body)
        data = HEADER + json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        del body
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            asked = Manifest.from_canonical(data)
            if shape != "ordinary":  # that one would be verified
                gate.decide(asked)
        except (ManifestError, RefusedRunError):
            pass
        seconds = time.process_time() - began
        gate.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"bytes": len(data), "seconds": seconds, "mb": (peak - before) / 1024}


def main() -> None:
    for shape in bodies():
        done = subprocess.run([sys.executable, __file__, shape], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"{shape:32} {found['bytes']:9,} bytes  {found['seconds']:6.2f} s  {found['mb']:6.1f} MB more")
    from parley.attacks.documents import UNITS
    from parley.attacks.institution import manifest
    from parley.federation.meaning import verify

    parties = [{"name": "hospital-a", "sampler": {"kind": "wor", "units": UNITS, "batch": 5}}]
    parties += [{"name": f"p{n}", "sampler": {"kind": "wor", "units": 1000 + n, "batch": 5}} for n in range(9500)]
    asked = manifest(parties=parties, **{"mechanism.noise_multiplier": 1.2, "mechanism.steps": 39})
    verify(manifest())
    began = time.process_time()
    verify(asked)
    print(f"verification of 9,501 parties of other sizes: {time.process_time() - began:.2f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(answer(sys.argv[1])))
    else:
        main()
