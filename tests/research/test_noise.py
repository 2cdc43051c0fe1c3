"""Noise of central methods."""

from parley.research.central.noise import gaussian_delta, largest_ratio
from parley.research.central.objective import plane_delta


def test_ratios_come_from_below() -> None:
    for epsilon, delta in ((0.1, 1e-5), (1.0, 1e-9), (5.0, 1e-2)):
        for spent in (gaussian_delta, plane_delta):
            ratio = largest_ratio(epsilon, delta, spent)
            assert spent(epsilon, ratio) <= delta < spent(epsilon, ratio * (1 + 1e-6))
