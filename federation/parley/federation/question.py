"""What may be asked in a round, where the side that asks and the side that answers have to agree.

The sensitivity of a local fit is by what the question says and by public facts:

    gradient descent, convex            3·L·T·η / n        η ≤ 1/β         Zhang, Zheng, Mou and Wang, Lemma 2
    gradient descent, μ-strongly        5·L·(μ + β)/(n·μ·β) η ≤ 1/(β + μ)  Zhang, Zheng, Mou and Wang, Lemma 3
    permuted SGD (Out-SGD), convex      2·k·L·η            η ≤ 2/β         Wu and others 2017, k passes in one order
"""

from dataclasses import dataclass

from parley.privacy.errors import InvalidParameterError
from parley.privacy.sampling import LARGEST, SMALLEST

BUCKETS = 24
"""Of a histogram of gradient norms, half a power of two each."""


def answer_length(kind: str, points: int, dimension: int) -> int:
    """How many integers answer a question of so many points: what the servers must have noise for."""
    return {"norms": BUCKETS, "framed norms": BUCKETS, "losses": points - 1}.get(kind, dimension)


@dataclass(frozen=True)
class LocalFit:
    """How a party is asked to fit its own model (`v1.LocalFit`); the party computes the sensitivity again."""

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
            raise InvalidParameterError(f"no local method {self.method!r}: use descent or permuted-sgd")
        numbers = (self.step, self.reach, self.strength or 1.0)
        if not (1 <= self.steps <= 100_000 and all(SMALLEST <= each <= LARGEST for each in numbers)):
            raise InvalidParameterError(
                "a local fit needs steps of 1 to 100,000, and a step, a reach and, if any, a strength from "
                f"{SMALLEST:g} to {LARGEST:g}"
            )
        if self.method == "permuted-sgd" and self.strength:
            raise InvalidParameterError("permuted SGD is accounted without an added penalty: set strength to 0")

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
                raise InvalidParameterError(
                    f"the step {self.step:g} exceeds 2/β = {2 / smoothness:g}: use a smaller one"
                )
            return 2 * self.steps * lipschitz * self.step
        if self.strength:
            beta = smoothness + self.strength
            if self.step > 1 / (beta + self.strength):
                raise InvalidParameterError(
                    f"the step {self.step:g} exceeds 1/(β + μ) = {1 / (beta + self.strength):g}"
                )
            # The penalised loss is Lipschitz where the iterates live: |θ| ≤ L/μ adds at most L.
            return 5 * 2 * lipschitz * (self.strength + beta) / (records * self.strength * beta)
        if self.step > 1 / smoothness:
            raise InvalidParameterError(f"the step {self.step:g} exceeds 1/β = {1 / smoothness:g}: use a smaller one")
        return 3 * lipschitz * self.steps * self.step / records
