"""How good a model is on a PUBLIC set: loss, objective, error, area under the curve, gradient norm.

Never on private data: a loss on the training set is a release, and simulated runs show it only because one process
holds all data anyway.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.learning.models import Model
from parley.learning.records import Records

Floats = NDArray[np.float64]
CHUNK = 8192


class Penalty(Protocol):
    """What an objective adds to the mean loss: `parley.algorithms.regularisers`, which this room does not know."""

    def value(self, theta: Floats) -> float: ...

    def gradient(self, theta: Floats) -> Floats: ...


@dataclass(frozen=True)
class Quality:
    loss: float
    """Mean loss without the regulariser"""
    objective: float
    """with it: what the core paper's tables call test error, and what its optimum 0.3330 on a9a is of"""
    error: float
    """Misclassified fraction; for regression the root mean square error"""
    auc: float | None
    """Binary targets only"""


def evaluate(model: Model, records: Records, theta: Floats, regulariser: Penalty, kind: str) -> Quality:
    """`kind` is the schema's target kind."""
    losses, scores = [], []
    for start in range(0, len(records.rows), CHUNK):
        chosen = np.arange(start, min(start + CHUNK, len(records.rows)))
        block = records.rows.take(chosen)
        losses.append(model.losses(block, records.targets[chosen], theta))
        scores.append(model.scores(block, theta))
    loss, raw = float(np.concatenate(losses).mean()), np.concatenate(scores)
    targets = records.targets
    auc = None
    if kind == "binary":
        error = float(((raw[:, 0] > 0) != (targets > 0.5)).mean())
        auc = area_under_curve(raw[:, 0], targets)
    elif kind == "classes":
        error = float((raw.argmax(axis=1) != targets).mean())
    else:
        error = float(np.sqrt(np.mean((raw[:, 0] - targets) ** 2)))
    return Quality(loss, loss + regulariser.value(theta), error, auc)


def area_under_curve(scores: Floats, targets: Floats) -> float | None:
    """The Mann-Whitney statistic, ties at half; None where one class is absent."""
    order = np.argsort(scores, kind="stable")
    _, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[inverse]
    positive = targets[order] > 0.5
    wins, losses = int(positive.sum()), int((~positive).sum())
    if not wins or not losses:
        return None
    return float((ranks[positive].sum() - wins * (wins + 1) / 2) / (wins * losses))


def gradient_norm(model: Model, records: Records, theta: Floats, regulariser: Penalty) -> float:
    """|∇F(θ)| of the whole objective, unclipped: the core paper's last column. Research only."""
    total: Floats = np.zeros(model.dimension)
    size = max(1, (1 << 22) // model.dimension)
    for start in range(0, len(records.rows), size):
        chosen = np.arange(start, min(start + size, len(records.rows)))
        total += model.gradients(records.rows.take(chosen), records.targets[chosen], theta).sum(axis=0)
    return float(np.linalg.norm(total / len(records.rows) + regulariser.gradient(theta)))
