"""What a federation gained: its model beside each institution's own and the pooled one, on a PUBLIC hold-out.

The other models are fitted WITHOUT privacy, on records that only somebody who holds them all can pool: for `parley
demo` and for research, whose records are public anyway, and never for a federation. They are logistic models of two
labels, whatever the federation's is. They get a ridge of one over the number of records, a standard normal prior, so
that a hospital with few records or with hardly a healthy patient is not put down by an unbounded fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.regularisers import Regulariser
from parley.learning.evaluation import evaluate
from parley.learning.models import Linear, Logistic, Model, sigmoid
from parley.learning.records import Records
from parley.study.errors import StudyError

Floats = NDArray[np.float64]

MOST_STEPS = 100
TOLERANCE = 1e-10
LARGEST_DIMENSION = 4096
"""Newton's method holds a matrix of its square."""


@dataclass(frozen=True)
class Score:
    """One model on the hold-out."""

    name: str
    records: int
    """It was trained on."""
    accuracy: float
    auc: float


@dataclass(frozen=True)
class Comparison:
    """The federated model, every institution alone, and everything pooled without privacy."""

    federated: Score
    alone: tuple[Score, ...]
    pooled: Score
    hold_out: int
    """Public records that all were scored on."""

    @property
    def accuracy(self) -> float:
        return self.federated.accuracy

    @property
    def auc(self) -> float:
        return self.federated.auc

    @property
    def pooled_auc(self) -> float:
        return self.pooled.auc

    def as_json(self) -> dict[str, Any]:
        """Fields of `parley demo --json`."""
        return {
            "accuracy": self.accuracy,
            "auc": self.auc,
            "pooled_accuracy": self.pooled.accuracy,
            "pooled_auc": self.pooled_auc,
            "alone": [{"party": each.name, "accuracy": each.accuracy, "auc": each.auc} for each in self.alone],
        }


def compare(
    theta: Floats, parties: Mapping[str, Records], hold_out: Records, federated: Model | None = None
) -> Comparison:
    """Score the federated model θ, a logistic regression unless it is said, against the alternatives."""
    model = federated or Linear(hold_out.rows.dimension, Logistic())
    if theta.shape != (model.dimension,):
        raise StudyError(
            f"the model has {theta.size:,} parameters and on the hold-out's schema it would have "
            f"{model.dimension:,}: compare a model on the schema that it was trained with"
        )
    counts = {name: len(records.rows) for name, records in parties.items()}
    tables = {name: (dense(records), records.targets) for name, records in parties.items()}
    alone = tuple(score(name, counts[name], fit_logistic(*table), hold_out) for name, table in tables.items())
    pooled_rows = np.concatenate([rows for rows, _ in tables.values()])
    pooled_targets = np.concatenate([targets for _, targets in tables.values()])
    everyone = sum(counts.values())
    return Comparison(
        score("federated", everyone, theta, hold_out, model),
        alone,
        score("pooled", everyone, fit_logistic(pooled_rows, pooled_targets), hold_out),
        len(hold_out.rows),
    )


def score(name: str, records: int, theta: Floats, hold_out: Records, model: Model | None = None) -> Score:
    """Accuracy at even odds, and the area under the curve; of a logistic regression unless it is said."""
    found = evaluate(model or Linear(len(theta), Logistic()), hold_out, theta, Regulariser(), "binary")
    if found.auc is None:
        raise StudyError("the hold-out has one outcome only, so no area under a curve exists: give records of both")
    return Score(name, records, 1 - found.error, found.auc)


def dense(records: Records) -> Floats:
    """Features as the models see them, float64[records, dimension]."""
    return np.asarray(records.rows.take(np.arange(len(records.rows))).dense() * 2.0**-records.rows.bits)


def fit_logistic(rows: Floats, targets: Floats) -> Floats:
    """argmin of mean log-loss + |θ|²/(2n), by Newton's method with halved steps (convex, so it gets there)."""
    count, dimension = rows.shape
    if dimension > LARGEST_DIMENSION:
        raise StudyError(f"a pooled model of {dimension:,} parameters is too large: at most {LARGEST_DIMENSION:,}")
    ridge = 1 / count
    logistic = Logistic()

    def objective(theta: Floats) -> float:
        return float(logistic.losses((rows @ theta)[:, None], targets).mean() + ridge / 2 * (theta @ theta))

    theta, value = np.zeros(dimension), objective(np.zeros(dimension))
    for _ in range(MOST_STEPS):
        p = sigmoid(rows @ theta)
        gradient = rows.T @ (p - targets) / count + ridge * theta
        if np.abs(gradient).max() < TOLERANCE:
            return theta
        curvature = (rows * (p * (1 - p))[:, None]).T @ rows / count + ridge * np.eye(dimension)
        direction = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > TOLERANCE and objective(theta - size * direction) > value - size / 4 * (gradient @ direction):
            size /= 2
        if size <= TOLERANCE:  # down to rounding
            return theta
        theta = theta - size * direction
        before, value = value, objective(theta)
        if value >= before:  # the step changed it by rounding alone
            return theta
    raise StudyError(f"the logistic fit did not settle within {MOST_STEPS} steps: this is a defect, report it")
