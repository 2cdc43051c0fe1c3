"""Objective perturbation (Bassily, Feldman, Talwar and Thakurta, Algorithm 2, after Kifer and others 2012).

    θ = argmin Σ_i ℓ(θ, z_i) + ⟨G, θ⟩ + n·μ/2·|θ|²,   G normal of deviation σ per coordinate      (their λ is μ/2)

Only θ is shown, and the noise is in no sum that a server could add it to. The paper prints σ² = 10·L²·log(1/δ)/ε² with
a reference for its proof; σ is calibrated here by the following bound under replace-one.

Given θ, G is −Σ∇ℓ − nμθ: neighbours reach one θ with noises that differ by v = ∇ℓ(θ, z) − ∇ℓ(θ, z′), |v| ≤ 2L, in
the plane of x and x′ whatever θ is. The log-likelihood ratio is at most u·R + u²/2 + log(1 + β/(nμ)), u = 2L/σ: R, the
length of G in that plane in deviations, has density r·exp(−r²/2), and the last term is the Jacobian's, a change of rank
one on either side (Assumption 5.1). So, with ε′ = ε − log(1 + β/(nμ)) at least u²/2,

    δ(ε) ≤ E max(0, 1 − exp(ε′ − uR − u²/2)) = u·sqrt(2π)·exp(ε′)·Φ(−(ε′/u + u/2)).

Lipschitz gradients suffice: θ ↦ G is bi-Lipschitz. The claim is about the exact minimiser, reached here to rounding;
AMP (minima.py) is the method that pays for what is left.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.learning.models import Huber, Linear, sigmoid
from parley.learning.records import Records
from parley.privacy.randomness import Randomness
from parley.research.central.method import CentralMethod, Target, central, require_rows
from parley.research.central.noise import SQRT_HALF, Noise, largest_ratio
from parley.study.errors import StudyError

Floats = NDArray[np.float64]

MOST_STEPS = 200
VISIBLE = 1e-11
"""Of the value, what a line search can see."""
ROUNDING = 1e-11
"""A gradient of the mean objective below this, times its scale, is zero to rounding."""


def plane_delta(epsilon: float, ratio: float) -> float:
    """The bound of this module's head at ε′ and u; 1 where it does not hold."""
    if epsilon < ratio * ratio / 2:
        return 1.0
    tail = 0.5 * math.erfc((epsilon / ratio + ratio / 2) * SQRT_HALF)
    return ratio * math.sqrt(2 * math.pi) * math.exp(min(epsilon, 700.0)) * tail


@central
@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(CentralMethod):
    name: ClassVar[str] = "objective-perturbation"
    paper: ClassVar[str] = "Bassily, Feldman, Talwar and Thakurta, Algorithm 2; Kifer, Smith and Thakurta 2012"

    curvature_share: float = 0.05
    """Of ε, for the Jacobian: fixes the least penalty, as the paper's β ≤ εnλ does, which is a half."""
    radius: float | None = None
    """M; with it the penalty is at least Theorem 5.3's."""
    row_norm: float | None = None
    """Longer rows are shortened to it before the fit, record by record: a public choice below the schema's bound."""

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = [each for each in (self.radius, self.row_norm) if each is not None]
        if not 0 < self.curvature_share < 1 or not all(0 < each < math.inf for each in lengths):
            raise StudyError("[algorithm] curvature_share must lie between 0 and 1, radius and row_norm be above 0")

    def target(self, size: int, model: Linear, epsilon: float, delta: float, reach: float) -> Target:
        return super().target(size, model, epsilon, delta, min(reach, self.row_norm or reach))

    def penalty(self, target: Target) -> float:
        """μ, at least what the share of ε asks for."""
        n = target.records
        least = max(self.strength, target.smoothness / (n * math.expm1(self.curvature_share * target.epsilon)))
        if self.radius is None:
            return least
        spread = 2 / n + 4 * target.dimension * math.log(1 / target.delta) / (target.epsilon * n) ** 2
        return max(least, 2 * 2 * target.lipschitz / self.radius * math.sqrt(spread))

    def noise_scale(self, target: Target) -> float:
        """σ"""
        curvature = math.log1p(target.smoothness / (target.records * self.penalty(target)))
        return 2 * target.lipschitz / largest_ratio(target.epsilon - curvature, target.delta, plane_delta)

    def solve(self, records: Records, model: Linear, target: Target, noise: Noise, randomness: Randomness) -> Floats:
        tilt = noise.gaussian(self.noise_scale(target), target.dimension) / target.records
        rows = shortened(records, target.reach)
        return minimise(rows, records.targets, model, self.penalty(target), tilt, 0.0)[0]


def shortened(records: Records, reach: float) -> Floats:
    """All rows in the data's unit, none longer than `reach`."""
    require_rows(records)
    block = records.rows.take(np.arange(len(records.rows)))
    lengths = np.sqrt(block.norms.squared) * 2.0**-block.bits
    return (
        block.dense() * (2.0**-block.bits * np.minimum(1.0, (1 - 1e-12) * reach / np.maximum(lengths, 1e-300)))[:, None]
    )


def minimise(
    rows: Floats, targets: Floats, model: Linear, penalty: float, tilt: Floats, enough: float
) -> tuple[Floats, float]:
    """argmin of mean loss + ⟨tilt, θ⟩ + penalty/2·|θ|² by damped Newton steps, and the gradient's norm there.

    Stops below `enough`, or at rounding where that is 0.
    """
    count = len(rows)
    theta: Floats = np.zeros(model.dimension)

    def value(at: Floats) -> float:
        loss = float(model.residual.losses((rows @ at)[:, None], targets).mean())
        return loss + float(tilt @ at) + penalty / 2 * float(at @ at)

    length = math.inf
    for _ in range(MOST_STEPS):
        scores = rows @ theta
        residual = model.residual.residuals(scores[:, None], targets)[:, 0]
        gradient = residual @ rows / count + tilt + penalty * theta
        length = float(np.linalg.norm(gradient))
        scale = 1 + float(np.linalg.norm(tilt)) + penalty * float(np.linalg.norm(theta))
        if length <= max(enough, ROUNDING * scale if enough == 0 else 0.0):
            return theta, length
        weights = _curvature(model, scores, targets)
        hessian = (rows * weights[:, None]).T @ rows / count + penalty * np.eye(len(theta))
        step = np.linalg.solve(hessian, gradient)
        before, size, promised = value(theta), 1.0, float(gradient @ step)
        # A decrease that the value's rounding would hide is not looked for: the step is Newton's own there.
        while promised > VISIBLE * (1 + abs(before)) and value(theta - size * step) > before - 1e-4 * size * promised:
            size /= 2
        theta = theta - size * step
    raise StudyError(f"no minimum within {MOST_STEPS} Newton steps, the gradient is {length:.2g}: raise strength")


def _curvature(model: Linear, scores: Floats, targets: Floats) -> Floats:
    """Second derivatives of the losses in the score."""
    if isinstance(model.residual, Huber):
        return np.asarray((np.abs(scores - targets) <= model.residual.threshold).astype(np.float64))
    p = sigmoid(scores)
    return p * (1 - p)
