"""Noise of central methods: from the product's stream cipher and, where it is Gaussian, of the servers' very law.

Never `numpy.random`. The Gaussian is `parley.mpc.clear`'s finite law at 2^-41 of a deviation; an exponential is −log of
a 53-bit uniform. The proofs of this room are about real numbers; what floating point does to a density is not
claimed here, and a simulation's model carries the figure, not the protection.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.mpc.clear import ClearSampler
from parley.mpc.randomness import Csprng
from parley.mpc.tables import load

Floats = NDArray[np.float64]

SQRT_HALF = math.sqrt(0.5)
Spent = Callable[[float, float], float]
"""δ as a function of ε and of the shift in deviations, rising in the latter."""


@dataclass
class Noise:
    """One party's stream; `silent` gives zeros, for runs without noise."""

    rng: Csprng
    silent: bool = False
    _sampler: ClearSampler = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._sampler = ClearSampler(load("strips", "standard"), self.rng)

    def gaussian(self, deviation: float, count: int) -> Floats:
        """float64[count]"""
        if self.silent:
            return np.zeros(count)
        scale_bits = self._sampler.tables.format.scale_bits
        return np.asarray(self._sampler.samples(count) * (deviation * 2.0**-scale_bits))

    def exponential_norm(self, scale: float, count: int) -> Floats:
        """float64[count] of density ∝ exp(−|z| / scale): a norm of law Gamma(count, scale), a uniform direction."""
        if self.silent:
            return np.zeros(count)
        uniform = ((self.rng.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        direction = self.gaussian(1.0, count)
        return np.asarray(direction * (-np.log(uniform).sum() * scale / np.linalg.norm(direction)))


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """δ of a Gaussian whose shift is `ratio` deviations (Balle and Wang 2018, Theorem 8)."""
    low = 0.5 * math.erfc((epsilon / ratio - ratio / 2) * SQRT_HALF)
    high = 0.5 * math.erfc((epsilon / ratio + ratio / 2) * SQRT_HALF)
    return low - math.exp(min(epsilon, 700.0)) * high


def largest_ratio(epsilon: float, delta: float, spent: Spent) -> float:
    """The largest shift over deviation whose `spent`(ε, ratio) is at most δ, from below."""
    low, high = 0.0, 1.0
    while spent(epsilon, high) <= delta and high < 1e6:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        if middle > 0 and spent(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    return low
