"""What a run minimises, on a PUBLIC set: loss, objective, error, area under the curve, gradient norm, a number each.

For every round and every table of the papers; what people ask of a finished model is in `parley.learning.metrics`.
Never on private data: a loss on the training set is a release, and simulated runs show it only because one process
holds all data anyway.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.learning.metrics import auc, outputs
from parley.learning.models import Model
from parley.learning.records import Records

Floats = NDArray[np.float64]


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
    losses, raw = outputs(model, records, theta)
    loss, targets, area = float(losses.mean()), records.targets, None
    if kind == "binary":
        error = float(((raw[:, 0] > 0) != (targets > 0.5)).mean())
        found = auc(raw[:, 0], targets > 0.5)
        area = found.value if found else None
    elif kind == "classes":
        error = float((raw.argmax(axis=1) != targets).mean())
    else:
        error = float(np.sqrt(np.mean((raw[:, 0] - targets) ** 2)))
    return Quality(loss, loss + regulariser.value(theta), error, area)


def gradient_norm(model: Model, records: Records, theta: Floats, regulariser: Penalty) -> float:
    """|∇F(θ)| of the whole objective, unclipped: the core paper's last column. Research only."""
    total: Floats = np.zeros(model.dimension)
    size = max(1, (1 << 22) // model.dimension)
    for start in range(0, len(records.rows), size):
        chosen = np.arange(start, min(start + size, len(records.rows)))
        total += model.gradients(records.rows.take(chosen), records.targets[chosen], theta).sum(axis=0)
    return float(np.linalg.norm(total / len(records.rows) + regulariser.gradient(theta)))
