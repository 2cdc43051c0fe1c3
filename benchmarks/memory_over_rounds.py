"""Resident memory of every role over a long run: whether it grows with the rounds.

    OMP_NUM_THREADS=1 python benchmarks/memory_over_rounds.py --rounds 10000 --json docs/experiments/memory.json

A federation of processes as in `parley bench train`, whose noise pool has the product's default capacity.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from parley.bench.train_bench import admit_beforehand
from parley.bench.train_data import study, write_party
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation

EVERY = 100


def resident_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def run(parties: int, dimension: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="parley-memory-") as folder:
        data = {}
        for place in range(parties):
            path = Path(folder) / f"party-{place + 1}.libsvm"
            write_party(path, place, dimension)
            data[f"party-{place + 1}"] = [path]
        manifest = study("memory", parties, dimension, rounds)
        with LocalFederation(Path(folder) / "nodes", manifest, data) as federation:
            for node in federation.nodes.values():
                admit_beforehand(node, manifest)
            federation.start()
            watched = {
                federation.coordinator.name: federation.coordinator,
                federation.parties[0].name: federation.parties[0],
            }
            watched |= {node.name: node for node in federation.aggregators}
            coordinator = Coordinator(federation.coordinator.folder)
            at: list[int] = []
            seen: dict[str, list[float]] = {name: [] for name in watched}
            digest = coordinator.submit(manifest)
            for _, records in coordinator.follow(digest):
                if records and (not at or records[-1].round >= at[-1] + EVERY):
                    at.append(records[-1].round)
                    for name, node in watched.items():
                        assert node.process is not None
                        seen[name].append(resident_mib(node.process.pid))
                    print(at[-1], {name: round(values[-1], 1) for name, values in seen.items()}, file=sys.stderr)
            if (row := coordinator.store.get(digest)) is None or row.state is not State.finished:
                raise SystemExit(f"the run ended as {row}")
    return {"parties": parties, "dimension": dimension, "rounds": rounds, **summary(seen)}


def summary(seen: dict[str, list[float]]) -> dict[str, Any]:
    """The most in each half of the run, of whose first tenth nothing counts: caches and pools fill."""
    found = {}
    for name, values in seen.items():
        tenth, half = len(values) // 10, len(values) // 2
        found[name] = {"first_half": round(max(values[tenth:half]), 1), "second_half": round(max(values[half:]), 1)}
    return {"peak_mib": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=123)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    body = {"command": " ".join(["python", *sys.argv]), **run(chosen.parties, chosen.dimension, chosen.rounds)}
    text = json.dumps(body, indent=2) + "\n"
    print(text)
    if chosen.json:
        chosen.json.write_text(text)


if __name__ == "__main__":
    main()
