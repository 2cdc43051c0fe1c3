"""ε-private output perturbation (Zhang, Zheng, Mou and Wang, Algorithm 1 with δ = 0, Lemmas 2 and 3).

A party's gradient descent (parley.learning.local, which the Gaussian variant shares) plus noise of density ∝
exp(−ε|z|/Δ), Δ the sensitivity: 3LTη/n for a convex loss, 5L(μ + β)/(nμβ) with a penalty. The servers sample no such
law.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import LocalFit
from parley.learning.local import MARGIN, fit
from parley.learning.models import Linear
from parley.learning.records import Records
from parley.privacy.randomness import Randomness
from parley.research.central.method import CentralMethod, Target, central
from parley.research.central.noise import Noise
from parley.study.errors import StudyError

Floats = NDArray[np.float64]


@central
@dataclass(frozen=True, kw_only=True)
class PureOutputPerturbation(CentralMethod):
    name: ClassVar[str] = "pure-output-perturbation"
    paper: ClassVar[str] = "Zhang, Zheng, Mou and Wang, Algorithm 1 with delta = 0, Lemmas 2 and 3"
    pure: ClassVar[bool] = True

    iterations: int = 100
    """T"""
    step: float | None = None
    """η; without it the largest that the lemma admits"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.iterations <= 100_000 or (self.step is not None and not 0 < self.step < np.inf):
            raise StudyError("[algorithm] iterations must lie between 1 and 100,000, and step be above 0")

    def work(self, target: Target) -> LocalFit:
        largest = 1 / (target.smoothness + self.strength + self.strength)  # as the party computes it
        return LocalFit("descent", self.iterations, self.step or largest, self.strength, target.reach)

    def noise_scale(self, target: Target) -> float:
        """Δ/ε, with the margin for rounding that the Gaussian variant pays."""
        moved = self.work(target).sensitivity(target.lipschitz, target.smoothness, target.records)
        return moved * (1 + MARGIN) / target.epsilon

    def solve(self, records: Records, model: Linear, target: Target, noise: Noise, randomness: Randomness) -> Floats:
        found = fit(records, model, self.work(target), randomness)
        return np.asarray(found + noise.exponential_norm(self.noise_scale(target), target.dimension))
