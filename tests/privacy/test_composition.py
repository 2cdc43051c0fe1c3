"""Composed pairs, bounded from above and from below."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from parley.privacy.composition import Composition, Part
from parley.privacy.pairs import (
    optimistic,
    pessimistic,
    root_mean_square_loss,
    sampled_pair,
    without_replacement_pair,
)
from tests.support.profiles import hockey_stick, lattice, neighbours, without_replacement


@pytest.mark.parametrize(("size", "batch", "shift"), [(3, 1, 1.0), (4, 2, 0.7), (3, 1, 2.0)])
def test_an_adversary_who_adapts_the_second_step_to_the_first_stays_below_the_composition(
    size: int, batch: int, shift: float
) -> None:
    bound = lattice(without_replacement_pair(batch / size, shift))
    composed = Composition((Part(bound, 2),))
    pairs = [
        (without_replacement(one, batch, shift), without_replacement(other, batch, shift))
        for one, other in neighbours(size)
    ]
    ratios = np.geomspace(1e-4, 1e4, 801)
    # The best second step against every threshold. Thresholds are rounded up: a slightly weaker adversary.
    best = np.max([[hockey_stick(u, v, ratio) for ratio in ratios] for u, v in pairs], axis=0)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        limit = composed.delta(epsilon)
        for first_upper, first_lower in pairs:
            threshold = math.exp(epsilon) * first_lower / np.maximum(first_upper, 1e-300)
            index = np.clip(np.searchsorted(ratios, threshold), 0, len(ratios) - 1)
            value = float(np.sum(first_upper * np.where(threshold > ratios[-1], 0.0, best[index])))
            assert value <= limit + 1e-9


@pytest.mark.parametrize("count", [1, 3, 100, 10_000])
def test_composed_gaussians_meet_their_closed_form_from_above_and_from_below(count: int) -> None:
    # Without sampling, T releases at shift s are one at shift s·√T (Dong, Roth and Su 2022).
    total = 1.2
    pair = without_replacement_pair(1.0, total / math.sqrt(count))
    step = root_mean_square_loss(pair)
    above = Composition((Part(pessimistic(pair, step / 64, 1e-15 / count), count),))
    below = Composition((Part(optimistic(sampled_pair(1.0, total / math.sqrt(count)), step / 64, 1e-15), count),), -1)
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        exact = float(ndtr(total / 2 - epsilon / total) - math.exp(epsilon) * ndtr(-total / 2 - epsilon / total))
        assert exact <= above.delta(epsilon) <= exact * 1.003
        assert 0.97 * exact <= below.delta(epsilon) <= exact


def test_a_tiny_delta_is_not_lost_in_the_transform() -> None:
    # 1e-40 is far below the rounding error of an untilted transform; the tilt keeps it, and rounding stays charged.
    pair = without_replacement_pair(1.0, 0.012)
    composed = Composition((Part(pessimistic(pair, root_mean_square_loss(pair) / 64, 1e-60), 10_000),))
    epsilon = composed.epsilon(1e-40)
    exact = math.exp(math.log(float(ndtr(0.6 - epsilon / 1.2))))
    exact -= math.exp(epsilon + math.log(float(ndtr(-0.6 - epsilon / 1.2))))
    assert exact <= 1e-40 <= exact * 1.1


def test_epsilon_and_delta_are_inverse_to_each_other() -> None:
    pair = without_replacement_pair(0.003, 0.6)
    composed = Composition((Part(lattice(pair), 651),))
    for delta in (1e-12, 1e-8, 1e-5, 1e-3, 0.05):
        epsilon = composed.epsilon(delta)
        assert composed.delta(epsilon) == pytest.approx(delta, rel=1e-4) or epsilon == 0.0
