"""Tables 2 and 3 of the core paper (Wang, Jayaraman, Evans and Gu, section 6.1): nonconvex logistic regression.

λ = 0.001, δ = 1e-5, ε ∈ {0.2, 0.5}; DDP-SRM with m = 10. Hyper-parameters of the tuned rows were chosen on the training
objective with other seeds; that tuning looked at the training data and is not charged, as in the paper. `auto` looks at
public facts only and has nothing to charge. `paper` rows use the parameters that the paper states. The noise is the
papers', too: the servers add none of their own (`own` is 0).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parley.algorithms.regularisers import Regulariser
from parley.learning.evaluation import gradient_norm
from parley.learning.holding import described
from parley.privacy.accountants import accountant
from parley.privacy.calibration import smallest_noise
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.paper_accountant import PaperAccountant
from parley.study.batch_runs import Prepared, mean_of, one_run, prepare
from parley.study.data import sets_of
from parley.study.errors import StudyError
from parley.study.files import Files
from parley.study.study import Study

DELTA = 1e-5
EPSILONS = (0.2, 0.5)
TARGET = {"name": "label", "kind": "binary", "positive": ["1"], "negative": ["-1"]}
ACCOUNTANT_SEEDS = 3
"""At most so many runs with each other accountant's noise: a comparison, not a row."""
AVERAGE = {"rule": "average", "tail": 0.25}


@dataclass(frozen=True)
class DataSet:
    """Files, public schema, and the paper's table: test loss by method and ε."""

    train: str
    test: str
    schema: dict[str, Any]
    paper: dict[str, tuple[float, float]]
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)


DATA_SETS = {
    "a9a": DataSet(
        "a9a/a9a.xz",
        "a9a/a9a.t.xz",
        {"features": {"count": 123, "low": 0, "high": 1, "whole": True}, "nonzeros": 14},
        {
            "storm": (0.3346, 0.3346), "dp-gd": (0.4153, 0.3856), "dp-agd": (0.3708, 0.3619),
            "rrpsgd": (0.4026, 0.3859), "dp-srm": (0.3598, 0.3517), "ddp-srm": (0.3629, 0.3572),
        },
        {
            "srm": {"gradient_norm": 2.5, "difference_norm": 0.02, "gamma": 0.5, "batch": 400, "step": 0.8},
            "sgd": {"clip_norm": 2.0, "batch": 500, "passes": 4.0, "step": 1.0, "momentum": 0.5},
            "gd": {"clip_norm": 2.0, "steps_taken": 20, "step": 2.0},
            "rrpsgd": {"clip_norm": 2.0, "batch": 1, "passes": 8.0, "step": 0.0003, "smoothness": 3.5},
            "storm": {"batch": 100, "passes": 20.0, "step": 1.0},
            "stated": {"batch": 50, "step": 0.05},
            "adaptive": {"batch": 100, "zeta": 0.05, "smoothness": 3.5},
        },
    ),
    "ijcnn1": DataSet(
        "ijcnn1/ijcnn1.bz2",
        "ijcnn1/ijcnn1.t.bz2",
        # The publisher scales to about [-1, 1]; what lies outside is cut.
        {"features": {"count": 22, "low": -1, "high": 1.1}, "nonzeros": 13},
        {
            "storm": (0.2096, 0.2096), "dp-gd": (0.3160, 0.2717), "dp-agd": (0.2645, 0.2416),
            "rrpsgd": (0.3110, 0.3033), "dp-srm": (0.2503, 0.2341), "ddp-srm": (0.2618, 0.2393),
        },
        {
            "srm": {"gradient_norm": 1.0, "difference_norm": 0.02, "gamma": 0.5, "batch": 1000, "step": 48.0,
                    "output": AVERAGE},
            "sgd": {"clip_norm": 1.0, "batch": 500, "passes": 5.0, "step": 16.0, "momentum": 0.5},
            "gd": {"clip_norm": 1.0, "steps_taken": 20, "step": 60.0},
            "rrpsgd": {"clip_norm": 1.0, "batch": 1, "passes": 8.0, "step": 0.004, "smoothness": 0.5},
            "storm": {"batch": 100, "passes": 20.0, "step": 4.0},
            "stated": {"batch": 50, "step": 1.0},
            "adaptive": {"batch": 100, "zeta": 0.05, "smoothness": 0.4},
        },
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One method of a table."""

    method: str
    algorithm: dict[str, Any]
    parties: int = 1
    paper: str | None = None
    """The paper's row that it stands beside."""
    intercept: bool = False
    """The paper's model has none."""


def rows_of(data: DataSet) -> list[Row]:
    """All rows of a table; passes are the paper's, where it states them."""
    srm = {"name": "ddp-srm", "passes": 5.0, "decay": "linear", **data.tuned["srm"]}
    poisson = {**srm, "sampling": "poisson"}
    sgd = {"name": "dp-sgd", "output": AVERAGE, **data.tuned["sgd"]}
    stated = {"gradient_norm": 1.0, "difference_norm": 0.01, "gamma": 0.01, "passes": 4.0}
    return [
        Row("ddp-srm", srm, 10, "ddp-srm"),
        Row("dp-srm", srm, 1, "dp-srm"),
        Row("auto", {"name": "auto"}, 10, intercept=True),
        Row("ddp-srm-poisson", poisson, 10, "ddp-srm"),
        Row("dp-srm-paper", {"name": "ddp-srm", **stated, **data.tuned["stated"]}, 1, "dp-srm"),
        Row("dp-srm-paper-adaptive", {"name": "ddp-srm", **stated, **data.tuned["adaptive"]}, 1, "dp-srm"),
        Row("dp-sgd", sgd, 1),
        Row("dp-sgd-poisson", {**sgd, "sampling": "poisson"}, 1),
        Row("dp-gd", {"name": "dp-gd", **data.tuned["gd"]}, 1, "dp-gd"),
        Row(
            "dp-agd",
            {
                "name": "dp-agd",
                "clip_norm": data.tuned["gd"]["clip_norm"],
                "largest_step": 2 * data.tuned["gd"]["step"],
            },
            1,
            "dp-agd",
        ),
        Row("rrpsgd", {"name": "rrpsgd", **data.tuned["rrpsgd"]}, 1, "rrpsgd"),
        Row("storm", {"name": "storm", **data.tuned["storm"]}, 1, "storm"),
    ]


def study_of(name: str, folder: Path, row: Row, epsilon: float) -> Study:
    """One row at one ε."""
    data = DATA_SETS[name]
    for file in (data.train, data.test):
        if not (folder / file).is_file():
            raise StudyError(f"--data: {file} is not in the folder given; data/README.md says where it comes from")
    layout, schema = described({"format": "libsvm", "target": TARGET, "intercept": row.intercept, **data.schema})
    return Study(
        schema,
        model="logistic",
        algorithm=row.algorithm,
        epsilon=epsilon,
        delta=DELTA,
        regulariser=Regulariser("nonconvex", 0.001),
        own=0.0,
        data=Files(train=(folder / data.train,), shares=row.parties, test=(folder / data.test,)),
        layout=layout,
    )


def reproduce(
    name: str, folder: Path, seeds: int, only: tuple[str, ...], progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """All rows at both ε, `seeds` runs each."""
    data = DATA_SETS[name]
    table = []
    for row in rows_of(data):
        if only and row.method not in only:
            continue
        for index, epsilon in enumerate(EPSILONS):
            found = _row(study_of(name, folder, row, epsilon), row, seeds)
            found["paper_test_loss"] = data.paper[row.paper][index] if row.paper else None
            loss, deviation = found["test_loss"], found["test_loss_std"]
            progress(f"{name} {row.method} epsilon {epsilon}: objective {loss:.4f} ± {deviation:.4f}")
            table.append(found)
    return table


def _row(study: Study, row: Row, seeds: int) -> dict[str, Any]:
    """One method at one ε. `test_loss` is the test objective, regulariser included, as in the paper's tables."""
    prepared = prepare(study, sets_of(study))
    runs = [one_run(prepared, seed) for seed in range(seeds)]
    mean = mean_of([{key: value for key, value in run.items() if key != "theta"} for run in runs])
    model = study.new_model()
    norms = [
        gradient_norm(model, next(iter(prepared.sets.own.values())), run["theta"], study.regulariser) for run in runs
    ]
    private = runs[0]["epsilon"] is not None
    noises = noise_by_accountant(prepared, study) if private else {}
    return {
        "method": row.method,
        "epsilon": study.epsilon,
        "accountant": study.accountant if private else "none",
        "parties": row.parties,
        "passes": mean["passes"],
        "test_loss": mean["test_objective"],
        "test_loss_std": mean["test_objective_std"],
        "test_log_loss": mean["test_loss"],
        "train_loss": mean["train_objective"],
        "test_error": mean["test_error"],
        "auc": mean["auc"],
        "gradient_norm": sum(norms) / len(norms),
        "cpu_seconds": mean["cpu_seconds"],
        "rounds": runs[0]["rounds"],
        "noise_multiplier": runs[0]["noise_multiplier"],
        "own": study.parts.own,
        "noise_by_accountant": noises,
        "test_loss_by_accountant": losses_by_accountant(prepared, noises, seeds, mean["test_objective"]),
        "seeds": seeds,
        "algorithm": dict(study.algorithm),
    }


def losses_by_accountant(
    prepared: Prepared, noises: dict[str, float | str], seeds: int, main: float
) -> dict[str, float | None]:
    """The mean test objective with the noise that each accountant asks for; None where it certifies none.

    The row's own accountant has all of its seeds, the others the first `ACCOUNTANT_SEEDS`.
    """
    some = min(seeds, ACCOUNTANT_SEEDS)
    found: dict[str, float | None] = {}
    for name, noise in noises.items():
        if name == prepared.study.accountant:
            found[name] = main
        elif isinstance(noise, str):
            found[name] = None
        else:
            mechanism = replace(prepared.mechanism, noise_multiplier=noise)
            other = replace(prepared, calibrated=replace(prepared.calibrated, mechanism=mechanism))
            found[name] = sum(one_run(other, seed)["test_objective"] for seed in range(some)) / some
    return found


def noise_by_accountant(prepared: Prepared, study: Study) -> dict[str, float | str]:
    """The noise multiplier that each accountant asks for at (ε, δ), or why it cannot certify any."""
    events = set(prepared.mechanism.events().values())
    found: dict[str, float | str] = {}
    for name in ("pld", "rdp", "paper"):
        try:
            found[name] = max(
                smallest_noise(accountant(name), event, study.epsilon, study.delta)[0] for event in events
            )
        except (ConditionsUnmetError, InvalidParameterError) as refusal:
            found[name] = str(refusal)
    try:
        ignoring = PaperAccountant(ignore_conditions=True)
        noises = [smallest_noise(ignoring, event, study.epsilon, study.delta)[0] for event in events]
        found["paper, conditions ignored (no guarantee)"] = max(noises)
    except (ConditionsUnmetError, InvalidParameterError) as refusal:
        found["paper, conditions ignored (no guarantee)"] = str(refusal)
    return found
