"""AMP: approximate minima perturbation (Iyengar, Near, Song, Thakkar, Thakurta and Wang 2019, Algorithm 1).

A baseline of Yu, Zhang, Chen, Yin and Liu, table 4. Objective perturbation at (ε1, δ1), stopped where the gradient's
norm is at most γ, and Gaussian noise at (ε2, δ2) on top for the distance to the true minimum, at most γ/μ. The true
minimum is (ε1, δ1)-private (objective.py); given it, neighbours' answers before the second noise are at most 2γ/μ
apart, for either lies within γ/μ of it: basic composition gives (ε1 + ε2, δ1 + δ2). Both noises are calibrated by these
bounds and not by the paper's constants.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.learning.models import Linear
from parley.learning.records import Records
from parley.privacy.randomness import Randomness
from parley.research.central.method import Target, central
from parley.research.central.noise import Noise, gaussian_delta, largest_ratio
from parley.research.central.objective import ObjectivePerturbation, minimise, shortened
from parley.study.errors import StudyError

Floats = NDArray[np.float64]

ROUNDING = 1e-3
"""Of γ, for the rounding of the gradient itself, which is computed to some 1e-16."""
SMALLEST_NORM = 1e-12


@central
@dataclass(frozen=True, kw_only=True)
class MinimaPerturbation(ObjectivePerturbation):
    name: ClassVar[str] = "amp"
    paper: ClassVar[str] = "Iyengar and others 2019, Algorithm 1, as compared by Yu, Zhang, Chen, Yin and Liu, table 4"

    output_share: float = 0.01
    """Of ε and of δ, for the second noise"""
    gradient_norm: float | None = None
    """γ; without it 1/n², their choice without tuning"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.output_share < 1 or (
            self.gradient_norm is not None and not self.gradient_norm >= SMALLEST_NORM
        ):
            raise StudyError("[algorithm] output_share must lie between 0 and 1, and gradient_norm be at least 1e-12")

    def parts(self, target: Target) -> tuple[Target, Target]:
        """(ε1, δ1) and (ε2, δ2)"""
        share = self.output_share
        first = replace(target, epsilon=(1 - share) * target.epsilon, delta=(1 - share) * target.delta)
        return first, replace(target, epsilon=share * target.epsilon, delta=share * target.delta)

    def noise_scale(self, target: Target) -> float:
        """Of the noise inside the objective."""
        return super().noise_scale(self.parts(target)[0])

    def stop_at(self, target: Target) -> float:
        """γ"""
        return self.gradient_norm or max(SMALLEST_NORM, 1 / target.records**2)

    def output_deviation(self, target: Target) -> float:
        """Per coordinate, of the second noise."""
        first, second = self.parts(target)
        distance = 2 * self.stop_at(target) * (1 + ROUNDING) / self.penalty(first)
        return distance / largest_ratio(second.epsilon, second.delta, gaussian_delta)

    def solve(self, records: Records, model: Linear, target: Target, noise: Noise, randomness: Randomness) -> Floats:
        tilt = noise.gaussian(self.noise_scale(target), target.dimension) / target.records
        rows, penalty = shortened(records, target.reach), self.penalty(self.parts(target)[0])
        theta, length = minimise(rows, records.targets, model, penalty, tilt, self.stop_at(target))
        if not length <= self.stop_at(target) < math.inf:
            raise StudyError("the minimum was not approached as closely as is paid for: this is a defect, report it")
        return np.asarray(theta + noise.gaussian(self.output_deviation(target), target.dimension))
