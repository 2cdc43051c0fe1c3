"""The paper's CNN on MNIST over the real federation: ten parties, two aggregators and a coordinator as processes.

    python benchmarks/mnist_federation.py DATA --epsilon 3 --json docs/experiments/mnist-federation.json

DATA holds mnist/ as its publishers' files, compressed or not. DDP-SRM with the settings of `parley reproduce mnist`.
Every party computes 26,010 parameters' gradients in a process of its own for the module, on one thread; all processes
share this machine. Told are the seconds of each phase on the clock, by public records of the coordinator, the seconds
of processors by role, and the error of the last model on the 10,000 test images.
"""

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parley.bench.train_bench import Usage, admit_beforehand
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RoundRecord, State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest, Operator
from parley.learning.holding import Layout
from parley.learning.schema import Schema, schema_from_json
from parley.study.manifests import draft
from parley.study.simulation import SeededRandomness, permutation

DELTA = 1e-5
IMAGE = 28 * 28
HEADERS = {"images": 16, "labels": 8}
MODEL = {
    "kind": "torch:parley.networks.mnist:cnn",
    "input": [1, 28, 28],
    "options": {"activation": "tanh"},
}
SCHEMA = {
    "features": {"count": IMAGE, "low": 0, "high": 255, "centre": 0.1307 * 255, "spread": 0.3081 * 255},
    "target": {"name": "label", "kind": "classes", "classes": [str(number) for number in range(10)]},
    "bits": 6,
}
SETTINGS = {"gradient_norm": 0.5, "difference_norm": 0.02, "gamma": 0.5, "step": 20.0, "decay": "linear"}


def opened(path: Path) -> bytes:
    for form in ("", ".gz"):
        found = path.with_name(path.name + form)
        if found.is_file():
            return gzip.decompress(found.read_bytes()) if form else found.read_bytes()
    raise SystemExit(f"{path} is not there, compressed or not: give the folder that holds mnist/")


def dealt(data: Path, folder: Path, parties: int, seed: int) -> dict[str, list[Path]]:
    """The training images dealt to parties of nearly equal size, as idx files."""
    both = {what: opened(data / "mnist" / f"train-{what}-idx{3 if what == 'images' else 1}-ubyte") for what in HEADERS}
    sizes = {"images": IMAGE, "labels": 1}
    count = int.from_bytes(both["labels"][4:8], "big")
    order = permutation(count, SeededRandomness("split", seed))
    found: dict[str, list[Path]] = {}
    for place in range(parties):
        chosen = order[place::parties]
        for what, header in HEADERS.items():
            size, held = sizes[what], both[what]
            rows = b"".join(held[header + at * size : header + (at + 1) * size] for at in chosen)
            path = folder / f"party-{place + 1}-{what}"
            path.write_bytes(held[:4] + len(chosen).to_bytes(4, "big") + held[8:header] + rows)
            found.setdefault(f"party-{place + 1}", []).append(path)
    return found


def manifest_of(schema: Schema, sizes: dict[str, int], epsilon: float, rounds: int, batch: int, own: float) -> Manifest:
    from parley.mpc.parts import parts_of

    records = sum(sizes.values())
    # Two gradients a record from the second round on.
    algorithm = {"name": "ddp-srm", "batch": batch, "passes": (2 * rounds - 1) * batch / records, **SETTINGS}
    return draft(
        run="mnist-cnn", federation="bench", model=MODEL, algorithm={**algorithm, "sampling": "poisson"},
        schema=schema, sizes=sizes, epsilon=epsilon, delta=DELTA, deadline_seconds=120.0,
        parts=parts_of("semi-honest", own), minimum_parties=len(sizes),
        aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "Lead Institute"),
    )  # fmt: skip


def below(process: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from below(int(child))


def used(federation: LocalFederation) -> dict[str, dict[str, float]]:
    """Seconds of processors and the largest process's memory, by role."""
    found: dict[str, dict[str, float]] = {}
    for node in federation.nodes.values():
        assert node.process is not None
        for place, process in enumerate(below(node.process.pid)):
            usage = Usage.of(process)
            role = found.setdefault(f"{node.role}{', its module' if place else ''}", {"cpu_seconds": 0.0, "mb": 0.0})
            role["cpu_seconds"] += usage.cpu_seconds
            role["mb"] = max(role["mb"], usage.peak_memory_mb)
    return found


def phases(records: list[RoundRecord]) -> dict[str, float]:
    """Of all rounds together, as the coordinator's public records have it."""
    names = ("waited_seconds", "agreed_seconds", "noised_seconds", "stepped_seconds")
    found = {name: sum(getattr(each, name) for each in records) for name in names}
    return {**found, "median_round_seconds": statistics.median(each.seconds for each in records)}


def run(manifest: Manifest, data: dict[str, list[Path]], test: list[Path], folder: Path) -> dict[str, Any]:
    """From the processes' start to the signed end."""
    with LocalFederation(folder, manifest, data, test, layout=Layout("idx")) as federation:
        for node in federation.nodes.values():
            admit_beforehand(node, manifest)
        began = time.monotonic()
        federation.start()
        ready = time.monotonic()
        coordinator = Coordinator(federation.coordinator.folder)
        digest, row, first, last, usage = coordinator.submit(manifest), None, 0.0, 0.0, {}
        for found, records in coordinator.follow(digest):
            row = found
            if records:
                first, last = first or time.monotonic(), time.monotonic()
                usage = used(federation)
                shown = records[-1]
                print(f"round {shown.round + 1}: {shown.seconds:.2f} s {shown.evaluation}", file=sys.stderr, flush=True)
        ended = time.monotonic()
        assert row is not None
        if row.state is not State.finished:
            raise SystemExit(f"the run ended as {row.state}: {row.outcome}")
        history = coordinator.store.history(digest)
    return {
        "rounds": len(history),
        "test_error": row.evaluation["error"] if "error" in row.evaluation else history[-1].evaluation["error"],
        "error_by_round": {each.round + 1: each.evaluation["error"] for each in history if each.evaluation},
        "seconds": {
            "processes": ready - began,
            "admission, modules opened": first - ready,
            "rounds after the first": last - first,
            "end": ended - last,
            "all": ended - began,
        },
        "of all rounds": phases(history),
        "by role": usage,
        "bytes_up_per_party": sum(each.bytes_up for each in history) / len(manifest.parties),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--own", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--json", type=Path, default=None)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-mnist-") as name:
        folder = Path(name)
        data = dealt(chosen.data, folder, chosen.parties, chosen.seed)
        sizes = {party: files[1].stat().st_size - HEADERS["labels"] for party, files in data.items()}
        test = [folder / "test-images", folder / "test-labels"]
        for path, end in zip(test, ("images-idx3", "labels-idx1"), strict=True):
            path.write_bytes(opened(chosen.data / "mnist" / f"t10k-{end}-ubyte"))
        schema = schema_from_json(SCHEMA)
        manifest = manifest_of(schema, sizes, chosen.epsilon, chosen.rounds, chosen.batch, chosen.own)
        found = run(manifest, data, test, folder / "nodes")
    told = {name: getattr(chosen, name) for name in ("parties", "epsilon", "rounds", "batch", "own", "seed")}
    result = {**told, "delta": DELTA, "processors": os.cpu_count(), "load": os.getloadavg()[1], **found}
    print(json.dumps(result, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
