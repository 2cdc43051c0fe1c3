"""Penalties on the model: independent of the data, so exact and outside clip and noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.errors import AlgorithmError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Regulariser:
    """`nonconvex`: λ Σ θ²/(1 + θ²) (section 6.1 of the core paper); `l2`: λ/2 |θ|²; `none`."""

    kind: str = "none"
    weight: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("none", "nonconvex", "l2"):
            raise AlgorithmError(f"regulariser {self.kind!r} is unknown: use none, nonconvex or l2")
        if not 0 <= self.weight < np.inf or (self.kind == "none" and self.weight):
            raise AlgorithmError(
                f"the regulariser's weight is {self.weight}: give a number of at least 0, none takes 0"
            )

    def value(self, theta: Floats) -> float:
        if self.kind == "nonconvex":
            return float(self.weight * (theta**2 / (1 + theta**2)).sum())
        return float(self.weight / 2 * (theta @ theta)) if self.kind == "l2" else 0.0

    def gradient(self, theta: Floats) -> Floats:
        if self.kind == "nonconvex":
            return np.asarray(self.weight * 2 * theta / (1 + theta**2) ** 2)
        return self.weight * theta if self.kind == "l2" else np.zeros_like(theta)
