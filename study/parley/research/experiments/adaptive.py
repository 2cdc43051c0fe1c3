"""Figure 1 of Zhou, Chen, Hong, Wu and Banerjee (section 6): a perceptron on MNIST by DP GD, DP RMSProp and DP Adam.

Stated there and kept: two hidden layers of 128 with ReLU, pixels less their mean over their deviation, cross-entropy,
mini-batches of 128, clip 1, noise scale σ = 2, 4, 8 (deviation σ·1 in a sum of gradients), 100 epochs, a tenth of the
step after every 30 of them, steps from {0.1, 0.01, 0.001} by the training loss, δ = 1e-5, five runs. Not stated there:
how batches are drawn (here Poisson, which its accountant presumes), λ, ν, β1, β2, the initial weights, and any figure
in numbers but ε: accuracies are curves. Its ε are below what PLD finds for a record replaced, which is what parley
claims: there σ is half the multiplier. A run of fewer passes keeps the schedule's proportions.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.algorithms.algorithm import Plan
from parley.learning.holding import described
from parley.learning.records import load
from parley.privacy.accountants import accountant, worst_party
from parley.privacy.event import Event, NeighbouringRelation
from parley.privacy.mechanism import Mechanism, Unit
from parley.study.batch_runs import Prepared, mean_of, one_run, plan_for
from parley.study.data import Sets, shares_of
from parley.study.errors import StudyError
from parley.study.simulation import Calibrated, mechanism_of
from parley.study.study import Study

DELTA = 1e-5
PASSES = 100.0
"""The paper's epochs."""
BATCH, CLIP_NORM = 128, 1.0
PAPER_EPSILON = {2.0: 1.22, 4.0: 0.57, 8.0: 0.28}
FILES = (
    ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
)
SCHEMA: dict[str, Any] = {
    "format": "idx",
    # Mean and deviation of the training pixels as everybody quotes them: public here, not charged there either.
    "features": {"count": 784, "low": 0, "high": 255, "centre": 0.1307 * 255, "spread": 0.3081 * 255},
    "target": {"name": "digit", "kind": "classes", "classes": [str(digit) for digit in range(10)]},
    "bits": 8,
}
MODEL = {"kind": "perceptron", "hidden": [128, 128], "activation": "relu"}
METHODS: dict[str, dict[str, Any]] = {
    "dp-gd": {"name": "dp-sgd", "step": 0.1},
    "dp-rmsprop": {"name": "dp-rmsprop", "step": 0.001, "cap": 1e-4},
    "dp-adam": {"name": "dp-adam", "step": 0.001, "cap": 1e-4},
    # A second moment is below 1 at every σ here: these have no cap in effect.
    "dp-rmsprop-uncapped": {"name": "dp-rmsprop", "step": 0.001, "cap": 1.0},
    "dp-adam-uncapped": {"name": "dp-adam", "step": 0.001, "cap": 1.0},
}
"""Steps of the paper's grid, and λ, chosen as docs/experiments/README.md says; mini-batches of DP GD are `dp-sgd`."""


def reproduce(
    folder: Path,
    seeds: int,
    only: tuple[str, ...],
    sigmas: tuple[float, ...],
    passes: float,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """All methods at every σ, or those of some methods and σ."""
    for file in (*FILES[0], *FILES[1]):
        if not (folder / file).is_file():
            raise StudyError(f"--data: {file} is not in the folder given; data/README.md says where it comes from")
    layout, schema = described(SCHEMA)
    train, test = ([folder / file for file in pair] for pair in FILES)
    pooled, held_out = load(train, schema, layout), load(test, schema, layout)
    rows = []
    for sigma in sigmas or tuple(PAPER_EPSILON):
        for method in only or tuple(METHODS):
            algorithm = {
                "batch": BATCH, "clip_norm": CLIP_NORM, "passes": passes, "sampling": "poisson", "decay": "staircase",
                **METHODS[method],
            }  # fmt: skip
            study = Study(schema, model=MODEL, algorithm=algorithm, epsilon=1.0, delta=DELTA, own=0.0)
            sizes = {"party-1": pooled.units}
            calibrated = noise_of(plan_for(study, pooled.units), sizes, sigma)
            prepared = Prepared(study, Sets({"pooled": pooled}, shares_of(1), held_out), calibrated)
            paper = study.replaced(algorithm={**algorithm, "passes": PASSES})
            row = _row(prepared, method, sigma, seeds)
            row |= at_paper_length(plan_for(paper, pooled.units), sizes, sigma)
            progress(f"adaptive {method} σ = {sigma:g}: error {row['test_error']:.4f}, loss {row['test_loss']:.4f}")
            rows.append(row)
    return rows


def mechanism_at(plan: Plan, sizes: dict[str, int], sigma: float) -> Mechanism:
    """Deviation σ·clip in the sum: a multiplier of σ over the sensitivity to replacing a record, which is 2·clip."""
    return mechanism_of(plan, sizes, DELTA, sigma / 2, Unit())


def noise_of(plan: Plan, sizes: dict[str, int], sigma: float) -> Calibrated:
    """The paper's noise, and the ε that it has by PLD."""
    mechanism = mechanism_at(plan, sizes, sigma)
    _, reading = worst_party(accountant("pld"), mechanism, DELTA)
    return Calibrated(mechanism, reading.epsilon, DELTA, "pld")


def at_paper_length(plan: Plan, sizes: dict[str, int], sigma: float) -> dict[str, float | None]:
    """ε of the paper's 100 passes: for a record replaced, and for one more or less, beside which its own ε stands."""
    mechanism = mechanism_at(plan, sizes, sigma)
    chosen = accountant("pld")
    event = next(iter(mechanism.events().values()))
    other = Event(event.releases, NeighbouringRelation.ADD_OR_REMOVE)
    return {
        "paper_passes": PASSES,
        "epsilon_at_paper_passes": _finite(chosen.epsilon(event, DELTA).epsilon),
        "epsilon_at_paper_passes_add_or_remove": _finite(chosen.epsilon(other, DELTA).epsilon),
    }


def _finite(epsilon: float) -> float | None:
    """None where nothing is certified, as with very few records: JSON has no infinity."""
    return epsilon if math.isfinite(epsilon) else None


def _row(prepared: Prepared, method: str, sigma: float, seeds: int) -> dict[str, Any]:
    runs = [one_run(prepared, seed) for seed in range(seeds)]
    mean = mean_of([{key: value for key, value in run.items() if key != "theta"} for run in runs])
    return {
        "method": method,
        "sigma": sigma,
        "noise_multiplier": prepared.mechanism.noise_multiplier,
        "epsilon": _finite(prepared.calibrated.epsilon),
        "delta": DELTA,
        "accountant": "pld",
        "relation": prepared.mechanism.relation.value,
        "parties": 1,
        "passes": mean["passes"],
        "rounds": runs[0]["rounds"],
        "test_loss": mean["test_loss"],
        "test_loss_std": mean["test_loss_std"],
        "test_error": mean["test_error"],
        "test_error_std": mean["test_error_std"],
        "train_loss": mean["train_loss"],
        "gradient_norm": None,
        "cpu_seconds": mean["cpu_seconds"],
        "seeds": seeds,
        "paper_epsilon": PAPER_EPSILON.get(sigma),
        "paper_test_loss": None,
        "paper_test_error": None,
        "paper_source": "Figure 1, curves without numbers",
        "algorithm": dict(prepared.study.algorithm),
    }
