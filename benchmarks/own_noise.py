"""What each server's own noise costs a model: a9a and the demonstration, own = 0 against 0.5, seed by seed.

    python benchmarks/own_noise.py DATA --seeds 10 --json docs/experiments/own-noise.json

DATA holds a9a/a9a.xz and a9a/a9a.t.xz; the hospitals' records are bundled. Simulations in one process, with the
servers' law of noise, at the same (ε, δ) against servers that follow: own = 0 is one joint sample, own = 0.5 adds half
a deviation of each server's own, of which the claim counts one. A pair has one seed, hence one split of the records and
one draw of the batches; the noise of the two is of different size and other samples. Beside each mean difference stands
its 95 % interval by Student's t over the pairs, and in the JSON what a server that lies would cost, from the claim.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from parley.demo.recipe import STUDY
from parley.research.experiments.tables import DATA_SETS, EPSILONS, rows_of, study_of
from parley.study.batch_runs import Prepared, one_run, prepare
from parley.study.data import sets_of
from parley.study.study import Study

OWN = (0.0, 0.5)
MEASURES = {"a9a": ("test_objective", "test_loss", "test_error"), "demo": ("test_loss", "auc", "test_error")}
"""`test_objective` is what the tables call the test loss: with the regulariser."""


def studies(data: Path) -> dict[str, tuple[str, Study]]:
    """By name: whose measures it has, and its run."""
    a9a = next(row for row in rows_of(DATA_SETS["a9a"]) if row.method == "ddp-srm")
    runs = {f"a9a, epsilon {epsilon:g}": ("a9a", study_of("a9a", data, a9a, epsilon)) for epsilon in EPSILONS}
    return {**runs, f"demo, epsilon {STUDY.epsilon:g}": ("demo", STUDY)}


def compared(measured: tuple[str, ...], study: Study, seeds: int) -> dict[str, Any]:
    """Every measure without and with own noise, and the difference of the pairs."""
    prepared = [prepare(study.replaced(own=own), sets_of(study), certified=True) for own in OWN]
    runs = [[one_run(each, seed) for seed in range(seeds)] for each in prepared]
    found: dict[str, Any] = {"seeds": seeds, "delta": study.delta, "claims": [claimed(each) for each in prepared]}
    for name in measured:
        without, with_own = ([float(run[name]) for run in each] for each in runs)
        pairs = [after - before for before, after in zip(without, with_own, strict=True)]
        reach = student.ppf(0.975, seeds - 1) * statistics.stdev(pairs) / math.sqrt(seeds)
        mean = statistics.fmean(pairs)
        found[name] = {
            "own_0": without,
            "own_0.5": with_own,
            "mean_own_0": statistics.fmean(without),
            "mean_own_0.5": statistics.fmean(with_own),
            "difference": mean,
            "interval": [mean - reach, mean + reach],
        }
    return found


def claimed(prepared: Prepared) -> dict[str, Any]:
    """(ε, ε₂) and the deviation that is released, in multiples of the sensitivity."""
    calibrated, parts = prepared.calibrated, prepared.study.parts
    assert calibrated is not None
    assert calibrated.claim is not None
    return {
        "own": parts.own,
        "epsilon": calibrated.claim.epsilon,
        "epsilon_if_a_server_lies": calibrated.claim.epsilon_if_a_server_lies,
        "noise_multiplier": calibrated.mechanism.noise_multiplier,
        "released_multiplier": calibrated.mechanism.noise_multiplier * parts.excess,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path, default=None)
    chosen = parser.parse_args()
    result = {}
    for name, (kind, study) in studies(chosen.data).items():
        result[name] = compared(MEASURES[kind], study, chosen.seeds)
        for measure in MEASURES[kind]:
            found = result[name][measure]
            low, high = found["interval"]
            print(
                f"{name} {measure}: {found['mean_own_0']:.4f} without, {found['mean_own_0.5']:.4f} with own noise, "
                f"difference {found['difference']:+.4f} ({low:+.4f} to {high:+.4f})",
                file=sys.stderr,
            )
    print(json.dumps(result))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
