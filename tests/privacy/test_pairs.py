"""Worst pairs of a subsampled Gaussian, and their lattice."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from parley.privacy.pairs import (
    Floats,
    LatticeLoss,
    Pair,
    poisson_replace_pair,
    without_replacement_pair,
)
from tests.support.profiles import GRID, gaussian, hockey_stick, lattice, neighbours, without_replacement

EPSILONS = (-3.0, -1.0, -0.3, -0.05, 0.0, 0.01, 0.1, 0.4, 1.0, 2.0, 4.0)


def poisson(values: tuple[float, ...], rate: float, shift: float) -> Floats:
    total = np.zeros(len(GRID))
    for mask in itertools.product((0, 1), repeat=len(values)):
        weight = math.prod(rate if bit else 1 - rate for bit in mask)
        total += weight * gaussian(shift * sum(value for value, bit in zip(values, mask, strict=True) if bit))
    return total


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
