"""Output perturbation's side of a party: a model fitted to its own records alone, and how far one record can move it.

Nothing of the iterations leaves the party; the servers add noise to the parties' average of the final models and open
that once. The sensitivity is recomputed here from the query, the model and the PUBLIC row bound, and a query whose
mechanism pays for less is refused.

    gradient descent, convex            3·L·T·η / n        η ≤ 1/β         Zhang, Zheng, Mou and Wang, Lemma 2
    gradient descent, μ-strongly        5·L·(μ + β)/(n·μ·β) η ≤ 1/(β + μ)  Zhang, Zheng, Mou and Wang, Lemma 3
    permuted SGD (Out-SGD), convex      2·k·L·η            η ≤ 2/β         Wu and others 2017, k passes in one order
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import QueryError
from parley.learning.models import Huber, Linear, Logistic
from parley.learning.records import Records
from parley.privacy.randomness import Randomness, uniform_words
from parley.privacy.sampling import LARGEST, SMALLEST

Floats = NDArray[np.float64]

MARGIN = 2.0**-8
"""Of the sensitivity, added for the rounding of the result to the lattice and of the iterations in floating point."""


@dataclass(frozen=True)
class LocalFit:
    """How a party is asked to fit its own model."""

    method: str
    """descent or permuted-sgd"""
    steps: int
    """T of gradient descent, or passes k"""
    step: float
    """η"""
    strength: float
    """μ of an added μ/2·|θ|², 0 for none"""
    reach: float
    """Bound of a row's norm; a party asks that it cover the schema's"""

    def __post_init__(self) -> None:
        if self.method not in ("descent", "permuted-sgd"):
            raise QueryError(f"no local method {self.method!r}: use descent or permuted-sgd")
        numbers = (self.step, self.reach, self.strength or 1.0)
        if not (1 <= self.steps <= 100_000 and all(SMALLEST <= each <= LARGEST for each in numbers)):
            raise QueryError(
                "a local fit needs steps of 1 to 100,000, and a step, a reach and, if any, a strength from "
                f"{SMALLEST:g} to {LARGEST:g}"
            )
        if self.method == "permuted-sgd" and self.strength:
            raise QueryError("permuted SGD is accounted without an added penalty: set strength to 0")

    def rounding(self, records: int) -> float:
        """What floating point may move the fitted model by, over its sensitivity, from above.

        A step's gradient sums `records` terms and an iterate is rounded in every step; none of that grows on the way,
        as the steps of a smooth convex loss bring two iterates no further apart.
        """
        made = self.steps * records if self.method == "permuted-sgd" else self.steps
        return records * (records + made) * 2.0**-50

    def sensitivity(self, lipschitz: float, smoothness: float, records: int) -> float:
        """How far replacing one of `records` records moves the fitted model."""
        if self.method == "permuted-sgd":
            if self.step > 2 / smoothness:
                raise QueryError(f"the step {self.step:g} exceeds 2/β = {2 / smoothness:g}: use a smaller one")
            return 2 * self.steps * lipschitz * self.step
        if self.strength:
            beta = smoothness + self.strength
            if self.step > 1 / (beta + self.strength):
                raise QueryError(f"the step {self.step:g} exceeds 1/(β + μ) = {1 / (beta + self.strength):g}")
            # The penalised loss is Lipschitz where the iterates live: |θ| ≤ L/μ adds at most L.
            return 5 * 2 * lipschitz * (self.strength + beta) / (records * self.strength * beta)
        if self.step > 1 / smoothness:
            raise QueryError(f"the step {self.step:g} exceeds 1/β = {1 / smoothness:g}: use a smaller one")
        return 3 * lipschitz * self.steps * self.step / records


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
