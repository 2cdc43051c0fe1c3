"""The derivation in docs/privacy-wor-profile.md, held to brute force on small data sets and to closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from parley.privacy.composition import Composition, Part
from parley.privacy.pairs import (
    Floats,
    LatticeLoss,
    Pair,
    optimistic,
    pessimistic,
    poisson_replace_pair,
    root_mean_square_loss,
    sampled_pair,
    without_replacement_pair,
)

GRID = np.linspace(-14, 14, 2801)
EPSILONS = (-3.0, -1.0, -0.3, -0.05, 0.0, 0.01, 0.1, 0.4, 1.0, 2.0, 4.0)


def gaussian(mean: float) -> Floats:
    """Masses of N(mean, 1) on the cells of GRID: a binned output is post-processing, so nothing may exceed a bound."""
    edges = np.concatenate([[-np.inf], (GRID[1:] + GRID[:-1]) / 2, [np.inf]])
    return np.diff(ndtr(edges - mean))


def hockey_stick(upper: Floats, lower: Floats, alpha: float) -> float:
    return float(np.maximum(upper - alpha * lower, 0).sum())


def without_replacement(values: tuple[float, ...], batch: int, shift: float) -> Floats:
    """The released law: a uniformly random batch, its sum, plus noise; values lie in [−½, ½]."""
    subsets = list(itertools.combinations(values, batch))
    return np.asarray(np.mean([gaussian(shift * sum(subset)) for subset in subsets], axis=0))


def poisson(values: tuple[float, ...], rate: float, shift: float) -> Floats:
    total = np.zeros(len(GRID))
    for mask in itertools.product((0, 1), repeat=len(values)):
        weight = math.prod(rate if bit else 1 - rate for bit in mask)
        total += weight * gaussian(shift * sum(value for value, bit in zip(values, mask, strict=True) if bit))
    return total


def neighbours(size: int) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Every pair of neighbours with values among −½, 0, ½ (the order of the others does not matter)."""
    levels = (-0.5, 0.0, 0.5)
    return [
        ((mine, *others), (its, *others))
        for others in itertools.combinations_with_replacement(levels, size - 1)
        for mine in levels
        for its in levels
        if mine != its
    ]


def lattice(pair: Pair, points: int = 60) -> LatticeLoss:
    return pessimistic(pair, root_mean_square_loss(pair) / points, 1e-13)


def profile(loss: LatticeLoss, epsilon: float) -> float:
    losses = loss.step * (loss.first + np.arange(len(loss.masses)))
    return float(np.sum(loss.masses * np.maximum(-np.expm1(epsilon - losses), 0))) + loss.infinite


@pytest.mark.parametrize(("size", "batch"), [(3, 1), (3, 2), (4, 2), (5, 2), (4, 4)])
@pytest.mark.parametrize("shift", [0.4, 1.0, 2.5])
def test_no_pair_of_small_data_sets_exceeds_the_profile_without_replacement(
    size: int, batch: int, shift: float
) -> None:
    bound = lattice(without_replacement_pair(batch / size, shift))
    limits = [profile(bound, epsilon) for epsilon in EPSILONS]
    for one, other in neighbours(size):
        upper, lower = without_replacement(one, batch, shift), without_replacement(other, batch, shift)
        for epsilon, limit in zip(EPSILONS, limits, strict=True):
            assert hockey_stick(upper, lower, math.exp(epsilon)) <= limit + 1e-12


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shift", [0.4, 1.0, 2.5])
def test_no_pair_of_small_data_sets_exceeds_the_poisson_profile_and_opposite_ones_reach_it(
    rate: float, shift: float
) -> None:
    bound = lattice(poisson_replace_pair(rate, shift))
    limits = [profile(bound, epsilon) for epsilon in EPSILONS]
    closest = 0.0
    for one, other in neighbours(3):
        upper, lower = poisson(one, rate, shift), poisson(other, rate, shift)
        for epsilon, limit in zip(EPSILONS, limits, strict=True):
            value = hockey_stick(upper, lower, math.exp(epsilon))
            assert value <= limit + 1e-12
            closest = max(closest, value / limit)
    assert closest > 0.999


def test_vectors_that_are_not_opposite_do_not_exceed_the_poisson_profile() -> None:
    # Two dimensions, x and x′ at an angle, by quadrature: at a kink its error is of the order of step² / 100.
    rate, shift, step = 0.3, 1.5, 0.05
    axis = np.arange(-8, 8, step)
    first, second = np.meshgrid(axis, axis)

    def density(length: float, angle: float) -> Floats:
        x, y = shift * length * math.cos(angle), shift * length * math.sin(angle)
        return np.asarray(np.exp(-((first - x) ** 2 + (second - y) ** 2) / 2) / (2 * math.pi) * step * step)

    base = density(0, 0)
    bound = lattice(poisson_replace_pair(rate, shift))
    for angle in np.linspace(0, math.pi, 7):
        for mine, its in ((0.5, 0.5), (0.5, 0.2), (0.2, 0.5)):
            upper = (1 - rate) * base + rate * density(mine, 0)
            lower = (1 - rate) * base + rate * density(its, float(angle))
            for epsilon in EPSILONS:
                assert hockey_stick(upper, lower, math.exp(epsilon)) <= profile(bound, epsilon) + 1e-5


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


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("shift", [0.02, 0.5, 3.0])
def test_the_lattice_lies_above_the_closed_form_and_close_to_it(rate: float, shift: float) -> None:
    bound = lattice(without_replacement_pair(rate, shift), 200)
    for epsilon in np.linspace(0, 0.98 * bound.step * (len(bound.masses) // 2), 40):
        kappa = 1 + math.expm1(epsilon) / rate
        place = math.log(kappa) / shift
        exact = rate * float(ndtr(shift / 2 - place) - kappa * ndtr(-shift / 2 - place))
        assert profile(bound, epsilon) >= exact * (1 - 1e-9)
        if exact > 1e-9:
            assert profile(bound, epsilon) <= exact * 1.01
        mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * exact
        assert profile(bound, -epsilon) >= mirrored * (1 - 1e-12)


@pytest.mark.parametrize("pair", [without_replacement_pair(0.01, 0.7), poisson_replace_pair(0.01, 0.7)])
def test_a_lattice_holds_all_mass_and_the_mass_under_the_other_distribution(pair: Pair) -> None:
    bound = lattice(pair)
    losses = bound.step * (bound.first + np.arange(len(bound.masses)))
    assert float(bound.masses.sum()) + bound.infinite == pytest.approx(1.0, abs=1e-11)
    assert float(np.sum(bound.masses * np.exp(-losses))) == pytest.approx(1.0, abs=1e-9)


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
