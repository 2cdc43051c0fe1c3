"""Output perturbation's side of a party: a model fitted to its own records alone, and how far one record can move it.

Nothing of the iterations leaves the party; the servers add noise to the parties' average of the final models and open
that once. The sensitivity is recomputed here from the query, the model and the PUBLIC row bound
(`parley.federation.question.LocalFit`), and a query whose mechanism pays for less is refused.
"""

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import LocalFit
from parley.learning.errors import QueryError
from parley.learning.models import Huber, Linear, Logistic
from parley.learning.records import Records
from parley.privacy.randomness import Randomness, uniform_words

Floats = NDArray[np.float64]

MARGIN = 2.0**-8
"""Of the sensitivity, added for the rounding of the result to the lattice and of the iterations in floating point."""


def constants(model: object, reach: float) -> tuple[float, float]:
    """L and β of a linear model's loss over rows of norm at most `reach`."""
    if isinstance(model, Linear) and isinstance(model.residual, Logistic):
        return reach, reach**2 / 4
    if isinstance(model, Linear) and isinstance(model.residual, Huber):
        return model.residual.threshold * reach, reach**2
    raise QueryError("output perturbation needs a convex Lipschitz loss: use a logistic or a Huber model")


def require_reach(records: Records, local: LocalFit) -> None:
    """Refuse a fit whose constants hold for shorter rows than the schema admits: by public facts, never by a row.

    A row is within the schema's bound by how it was encoded; to look whether one is longer than what a question says
    would be a predicate on the longest row.
    """
    if records.unit_column is not None:
        raise QueryError("a local fit protects rows: use a gradient method for units of several records")
    if not local.reach >= records.row_bound:
        raise QueryError(
            f"the fit is for rows of norm {local.reach:g} and the schema admits {records.row_bound:g}: take the bound "
            "from the schema"
        )


def fit(records: Records, model: Linear, local: LocalFit, randomness: Randomness) -> Floats:
    """The party's own model, starting from zero, over rows that `require_reach` has let through."""
    count = len(records.rows)
    theta: Floats = np.zeros(model.dimension)
    if local.method == "descent":
        everyone = np.arange(count)
        block = records.rows.take(everyone)
        for _ in range(local.steps):
            residual = model.residual.residuals(model.scores(block, theta), records.targets)
            gradient = block.combine(residual)[:, 0] * 2.0**-block.bits / count
            theta = theta - local.step * (gradient + local.strength * theta)
        return theta
    order = np.argsort(uniform_words(randomness, count), kind="stable").astype(np.int64)
    block, targets = records.rows.take(order), records.targets[order]
    rows = block.dense() * 2.0**-block.bits
    for _ in range(local.steps):
        for row, target in zip(rows, targets, strict=True):
            score = np.array([[row @ theta]])
            theta = theta - local.step * model.residual.residuals(score, np.array([target]))[0, 0] * row
    return theta
