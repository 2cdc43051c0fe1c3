"""Output perturbation without delta."""

import math

import numpy as np
import pytest

from parley.research.central.method import Target
from parley.research.central.pure_output import PureOutputPerturbation
from tests.support.central import D, N, noise


def test_the_pure_noise_has_a_gamma_norm_and_no_direction() -> None:
    """Mean and variance of 40,000 norms, and the mean direction: six standard errors: one false alarm in 1e8."""
    count, scale = 40_000, 0.3
    source = noise(3)
    drawn = np.stack([source.exponential_norm(scale, D) for _ in range(count)])
    norms = np.linalg.norm(drawn, axis=1) / scale
    assert abs(norms.mean() - D) < 6 * math.sqrt(D / count)
    # The fourth central moment of Gamma(k) is 3k² + 6k.
    assert abs(norms.var() - D) < 6 * math.sqrt((3 * D**2 + 6 * D - D**2) / count)
    assert (np.abs((drawn / norms[:, None] / scale).mean(axis=0)) < 6 * math.sqrt(1 / (D * count))).all()


def test_the_pure_noise_is_scaled_by_the_lemmas() -> None:
    target = Target(N, D, 0.5, 0.0, 1.5, 0.5, 1.5)
    convex = PureOutputPerturbation(iterations=20)
    assert convex.noise_scale(target) == pytest.approx(3 * 1.5 * 20 * (1 / 0.5) / N / 0.5, rel=2**-7)
    strong = PureOutputPerturbation(iterations=20, strength=0.1)
    beta = 0.6
    assert strong.noise_scale(target) == pytest.approx(10 * 1.5 * (0.1 + beta) / (N * 0.1 * beta) / 0.5, rel=2**-7)
