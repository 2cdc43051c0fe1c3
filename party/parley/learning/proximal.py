"""Non-smooth losses through their Moreau envelopes (Bassily, Feldman, Talwar and Thakurta, section 4, ProxGD).

For a linear model ℓ(w) = φ(x·w) the proximal problem is one-dimensional, and the envelope's gradient, β(w − prox), is
t·x with t = φ′ at the proximal point. So parties evaluate it in closed form where the paper approximates it by inner
gradient descent, and clip and encode it like any residual.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import SchemaError

Floats = NDArray[np.float64]


def theorem_smoothness(
    lipschitz: float, radius: float, records: int, dimension: int, epsilon: float, delta: float
) -> float:
    """β of Theorem 4.4: L/M · min(sqrt(n)/4, εn / (8·sqrt(d·log(1/δ)))); L and M as the paper has them."""
    private = epsilon * records / (8 * math.sqrt(dimension * math.log(1 / delta)))
    return lipschitz / radius * min(math.sqrt(records) / 4, private)


@dataclass(frozen=True)
class SmoothedHinge:
    """The envelope of φ(s) = max(0, 1 − z·s), z = ±1 from y in {0, 1}, over rows of norm at most `reach`.

    With κ = β/|x|², t = −z·clip(κ(1 − z·s), 0, 1). `reach`, the public bound of a row's norm, stands for |x|: the
    envelope is then that of every row's own β, at least the given one, and as Lipschitz.
    """

    smoothness: float
    """β"""
    reach: float
    outputs: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.smoothness < np.inf and 0 < self.reach < np.inf):
            raise SchemaError(f"smoothness {self.smoothness} and reach {self.reach} must be finite numbers above 0")

    def residuals(self, scores: Floats, targets: Floats) -> Floats:
        z = 2 * targets[:, None] - 1
        kappa = self.smoothness / self.reach**2
        return np.asarray(-z * np.clip(kappa * (1 - z * scores), 0.0, 1.0))

    def losses(self, scores: Floats, targets: Floats) -> Floats:
        """The envelope's value: κ·h²/2 up to h = 1/κ, then h − 1/(2κ), for h = max(0, 1 − z·s)."""
        z = 2 * targets - 1
        kappa = self.smoothness / self.reach**2
        h = np.maximum(0.0, 1 - z * scores[:, 0])
        return np.where(h <= 1 / kappa, kappa * h * h / 2, h - 1 / (2 * kappa))
