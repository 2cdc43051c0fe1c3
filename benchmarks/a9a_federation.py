"""a9a over the real federation: ten parties, two aggregators and a coordinator as processes, beside the simulation.

    python benchmarks/a9a_federation.py DATA --seeds 5 --json docs/experiments/a9a-federation.json

DATA holds a9a/a9a.xz and a9a/a9a.t.xz. DDP-SRM with b = 500 for 5 passes at ε = 0.5, as in the core paper's section 6.
Every seed splits the records anew and starts fresh processes, whose noise nobody knows; the simulation's seeds draw the
servers' law in one process. Test loss (with the regulariser, as everywhere in the tables) is compared by Welch's
two-sided test; with nothing wrong it falls below p = 0.01 in one benchmark of a hundred.
"""

import argparse
import json
import lzma
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scipy.stats import ttest_ind

from parley.algorithms.regularisers import Regulariser
from parley.bench.train_bench import admit_beforehand
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest, Operator
from parley.learning.holding import Layout
from parley.learning.records import load
from parley.learning.schema import Schema, schema_from_json
from parley.models.registry import model_of
from parley.research.experiments.tables import DATA_SETS, TARGET
from parley.study.batch_runs import prepare, simulate_keys
from parley.study.data import sets_of
from parley.study.files import Files
from parley.study.manifests import draft
from parley.study.simulation import SeededRandomness, permutation
from parley.study.study import Study

PARTIES, EPSILON, DELTA = 10, 0.5, 1e-5
ALGORITHM: dict[str, Any] = {
    "name": "ddp-srm", "gradient_norm": 2.5, "difference_norm": 0.02, "gamma": 0.5, "batch": 500, "step": 0.8,
    "passes": 5.0, "output": {"rule": "average", "tail": 0.25},
}  # fmt: skip
REGULARISER = Regulariser("nonconvex", 0.001)


def schema() -> Schema:
    return schema_from_json({"target": TARGET, **DATA_SETS["a9a"].schema})


def split_lines(pooled: Path, folder: Path, seed: int) -> dict[str, list[Path]]:
    """The pooled file dealt to parties of nearly equal size."""
    lines = lzma.decompress(pooled.read_bytes()).decode().splitlines()
    order = permutation(len(lines), SeededRandomness("split", seed))
    found = {}
    for place in range(PARTIES):
        path = folder / f"party-{place + 1}.libsvm"
        path.write_text("\n".join(lines[index] for index in order[place::PARTIES]) + "\n")
        found[f"party-{place + 1}"] = [path]
    return found


def study(sizes: dict[str, int]) -> Manifest:
    return draft(
        run="a-nine-a", federation="bench", model={"kind": "logistic"}, algorithm=ALGORITHM, schema=schema(),
        sizes=sizes, epsilon=EPSILON, delta=DELTA, regulariser=REGULARISER, deadline_seconds=60.0,
        aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "Lead Institute"),
    )  # fmt: skip


def over_the_federation(manifest: Manifest, data: dict[str, list[Path]], test: Path, folder: Path) -> dict[str, float]:
    """One run; its public evaluation and its times."""
    with LocalFederation(folder, manifest, data, [test], layout=Layout("libsvm")) as federation:
        for node in federation.nodes.values():
            admit_beforehand(node, manifest)
        began = time.monotonic()
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        row = None
        for found, _ in coordinator.follow(digest):
            row = found
        total = time.monotonic() - began
        assert row is not None
        if row.state is not State.finished:
            raise SystemExit(f"the run ended as {row.state}: {row.outcome}")
        records = coordinator.store.history(digest)
        theta = coordinator.store.theta(digest)
    assert theta is not None
    _, model = model_of(manifest)
    from parley.learning.evaluation import evaluate

    quality = evaluate(model, load([test], schema()), theta, REGULARISER, "binary")
    return {
        "test_objective": quality.objective,
        "test_loss": quality.loss,
        "seconds": total,
        "training_seconds": records[-1].at - records[0].at + records[0].seconds,
        "rounds": len(records),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    chosen = parser.parse_args()
    train, test = chosen.data / DATA_SETS["a9a"].train, chosen.data / DATA_SETS["a9a"].test
    runs = []
    for seed in range(chosen.seeds):
        with tempfile.TemporaryDirectory(prefix="parley-a9a-") as folder:
            data = split_lines(train, Path(folder), seed)
            sizes = {party: sum(1 for _ in files[0].open()) for party, files in data.items()}
            manifest = study(sizes)
            runs.append(over_the_federation(manifest, data, test, Path(folder) / "nodes"))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    simulated_study = Study(
        schema(),
        model="logistic",
        algorithm=ALGORITHM,
        epsilon=EPSILON,
        delta=DELTA,
        regulariser=REGULARISER,
        data=Files(train=(train,), shares=PARTIES, test=(test,)),
    )
    prepared = prepare(simulated_study, sets_of(simulated_study), certified=True)
    simulated = [run["test_objective"] for run in simulate_keys(prepared, range(2 * chosen.seeds))]
    real = [run["test_objective"] for run in runs]
    result = {
        "federation": runs,
        "simulation": simulated,
        "mean_federation": statistics.fmean(real),
        "mean_simulation": statistics.fmean(simulated),
        "p_value": float(ttest_ind(real, simulated, equal_var=False).pvalue),
        "median_seconds": statistics.median(run["seconds"] for run in runs),
    }
    print(json.dumps(result))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
