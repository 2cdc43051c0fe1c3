"""Convex experiments: table 3 of Zhang, Zheng, Mou and Wang, and the Adult column of table 4 of Yu and others.

Table 3: minimisation error F(w) − F(ŵ) on the training set at δ = 0.001, logistic regression on three sets and Huber
regression on two, with μ/2·|w|²; `output-perturbation` is their method (`pure-…` its δ = 0 branch, which the table does
not show), `dp-sgd` with batches of 50 the comparison, objective perturbation and AMP further ones, `auto` the default.
Their loss is log(1 + exp(1 + y⟨w, x⟩)), ours the logistic loss; scalings are not stated there and ours are public
(public_schemas.py), so that figures compare in order of magnitude only. Table 4: accuracy on a held-out fifth of Adult
at ε = 0.1, δ = 1/n².
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from parley.algorithms.regularisers import Regulariser
from parley.learning.evaluation import evaluate
from parley.learning.holding import described
from parley.learning.models import Model
from parley.learning.records import Records, load
from parley.learning.schema import Schema
from parley.models.registry import build_model
from parley.research.central.method import known
from parley.research.central.runs import run_with
from parley.research.experiments import public_schemas
from parley.study.batch_runs import mean_of
from parley.study.data import Sets, shares_of
from parley.study.errors import StudyError
from parley.study.study import Study

Floats = NDArray[np.float64]

DELTA = 1e-3
EPSILONS = (0.1, 0.5, 1.0, 2.0)
FILES: dict[str, tuple[str, dict[str, Any], str, float]] = {
    "bank": ("bank-marketing/bank-full.csv.xz", public_schemas.BANK, "logistic", 0.1),
    "adult": ("adult/adult.data.xz", public_schemas.ADULT, "logistic", 0.1),
    "credit": ("credit-default/UCI_Credit_Card.csv.xz", public_schemas.CREDIT, "logistic", 0.1),
    "wine": ("wine-quality/winequality-white.csv", public_schemas.WINE, "huber", 0.5),
    "bike": ("bike-sharing/hour.csv.xz", public_schemas.BIKE, "huber", 0.5),
}
PAPER: dict[tuple[str, float], tuple[float, float, float, float]] = {
    ("bank", 0.0): (0.3983, 0.2231, 0.1459, 0.0838),
    ("bank", 0.1): (0.2566, 0.0106, 0.0025, 0.0005),
    ("adult", 0.0): (0.0499, 0.0208, 0.0122, 0.0065),
    ("adult", 0.1): (3.2039, 0.1287, 0.0309, 0.0080),
    ("credit", 0.0): (0.0293, 0.0102, 0.0053, 0.0024),
    ("credit", 0.1): (0.3643, 0.0141, 0.0035, 0.0008),
    ("wine", 0.0): (0.6061, 0.2487, 0.1713, 0.1110),
    ("wine", 0.5): (1.0842, 0.0364, 0.0101, 0.0024),
    ("bike", 0.0): (5.4659, 4.0404, 3.2768, 2.4081),
    ("bike", 0.5): (0.0555, 0.0301, 0.0242, 0.0232),
}
OWN_PENALTY = {"output-perturbation", "out-sgd", *known()}
"""Methods whose penalty is a parameter of theirs, because their privacy rests on it."""
TABLE_4 = {"non-private": 0.848, "amp": 0.793, "out-sgd": 0.774, "dp-sgd": 0.804, "dp-gd": 0.809}


def optimum(model: Model, records: Records, regulariser: Regulariser) -> Floats:
    """ŵ, without privacy: what the errors are measured from."""
    everyone = np.arange(len(records.rows))
    block = records.rows.take(everyone)

    def value(theta: Floats) -> tuple[float, Floats]:
        loss = float(model.losses(block, records.targets, theta).mean()) + regulariser.value(theta)
        gradient = model.gradients(block, records.targets, theta).mean(axis=0) + regulariser.gradient(theta)
        return loss, gradient

    found = minimize(value, np.zeros(model.dimension), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x)


def held_out(records: Records) -> tuple[Records, Records]:
    """Every fifth row for testing: a split by position, which is public."""
    rows = np.arange(len(records.rows))
    return records.select(rows[rows % 5 > 0]), records.select(rows[rows % 5 == 0])


def algorithms(kind: str, strength: float, row_norm: float) -> dict[str, dict[str, Any]]:
    """Rows of table 3. The loss's constants are public facts of the model, `row_norm` half of the schema's bound."""
    constants = {"loss_lipschitz": 1.0, "loss_smoothness": 0.25 if kind == "logistic" else 1.0}
    return {
        "output-perturbation": {"iterations": 100 if strength == 0 else 300, "strength": strength, **constants},
        "pure-output-perturbation": {"iterations": 100 if strength == 0 else 300, "strength": strength},
        "objective-perturbation": {"strength": strength, "row_norm": row_norm},
        "amp": {"strength": strength, "row_norm": row_norm},
        "dp-sgd": {"batch": 50, "passes": 1.0, "clip_norm": 1.0, "step": 0.2, "decay": "inverse-sqrt"},
        "auto": {},
    }


def reproduce(
    folder: Path, seeds: int, only: tuple[str, ...], methods: tuple[str, ...], progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """All rows of both tables, or those of some data sets and methods."""
    table: list[dict[str, Any]] = []
    for name, (file, body, kind, strong) in FILES.items():
        if only and name not in only:
            continue
        if not (folder / file).is_file():
            raise StudyError(f"--data: {file} is not in the folder given")
        layout, schema = described(body)
        records = load([folder / file], schema, layout)
        for strength in (0.0, strong):
            table += _table_3(name, records, schema, kind, strength, seeds, methods, progress)
        if name == "adult":
            table += _table_4(records, schema, seeds, methods, progress)
    return table


def _table_3(
    name: str,
    records: Records,
    schema: Schema,
    kind: str,
    strength: float,
    seeds: int,
    only: tuple[str, ...],
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    regulariser = Regulariser("l2", strength) if strength else Regulariser()
    model = build_model({"kind": kind}, schema)
    best = evaluate(model, records, optimum(model, records, regulariser), regulariser, schema.target.kind).objective
    rows = []
    for method, parameters in algorithms(kind, strength, schema.feature_bound / 2).items():
        if only and method not in only:
            continue
        own = Regulariser() if method in OWN_PENALTY else regulariser
        for index, epsilon in enumerate(EPSILONS):
            algorithm = {"name": method, **parameters}
            study = Study(
                schema, model=kind, algorithm=algorithm, epsilon=epsilon, delta=DELTA, regulariser=own, own=0.0
            )
            one_run = run_with(study, Sets({"pooled": records}, shares_of(1)))
            runs = [one_run(seed) for seed in range(seeds)]
            errors = [
                evaluate(model, records, run["theta"], regulariser, schema.target.kind).objective - best for run in runs
            ]
            rows.append(
                {
                    "table": 3, "data": name, "strength": strength, "method": method, "epsilon": epsilon,
                    "accountant": runs[0]["accountant"], "delta": runs[0]["delta"], "parties": 1,
                    "passes": runs[0]["passes"],
                    "excess_loss": float(np.mean(errors)), "excess_loss_std": float(np.std(errors)),
                    "test_loss": None, "test_loss_std": None, "test_error": None, "gradient_norm": None,
                    "cpu_seconds": mean_of(runs)["cpu_seconds"], "seeds": seeds,
                    "paper_excess_loss": PAPER[name, strength][index] if method == "output-perturbation" else None,
                    "paper_test_loss": None,
                }
            )  # fmt: skip
        progress(f"{name} μ = {strength} {method}: " + ", ".join(f"{row['excess_loss']:.4f}" for row in rows[-4:]))
    return rows


def _table_4(
    records: Records, schema: Schema, seeds: int, only: tuple[str, ...], progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    train, test = held_out(records)
    delta = 1 / len(train.rows) ** 2
    regulariser = Regulariser("l2", 1e-4)
    methods: dict[str, dict[str, Any]] = {
        "dp-gd": {"clip_norm": 1.0, "steps_taken": 50, "step": 1.0},
        "dp-sgd": {"clip_norm": 1.0, "batch": len(train.rows) // 10, "passes": 5.0, "step": 2.0},
        "out-sgd": {},
        "amp": {"strength": 1e-4, "row_norm": schema.feature_bound / 2},
        "objective-perturbation": {"strength": 1e-4, "row_norm": schema.feature_bound / 2},
        "auto": {},
    }
    rows = []
    for method, parameters in methods.items():
        if only and method not in only:
            continue
        own = Regulariser() if method in OWN_PENALTY else regulariser
        algorithm = {"name": method, **parameters}
        study = Study(schema, algorithm=algorithm, epsilon=0.1, delta=delta, regulariser=own, own=0.0)
        one_run = run_with(study, Sets({"pooled": train}, shares_of(1), test))
        mean = mean_of([one_run(seed) for seed in range(seeds)])
        rows.append(
            {
                "table": 4, "data": "adult", "method": method, "epsilon": 0.1,
                "accountant": "own proof" if method in known() else "pld", "parties": 1,
                "passes": mean.get("passes"), "test_loss": mean["test_loss"], "test_loss_std": mean["test_loss_std"],
                "test_error": mean["test_error"], "gradient_norm": None, "cpu_seconds": mean["cpu_seconds"],
                "seeds": seeds, "paper_test_loss": None,
                "paper_test_error": 1 - TABLE_4[method] if method in TABLE_4 else None,
            }
        )  # fmt: skip
        progress(f"adult, table 4, {method}: error {mean['test_error']:.4f}")
    return rows
