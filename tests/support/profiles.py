"""Privacy profiles of small cases, computed outright."""

import itertools

import numpy as np
from scipy.special import ndtr

from parley.privacy.pairs import (
    Floats,
    LatticeLoss,
    Pair,
    pessimistic,
    root_mean_square_loss,
)

GRID = np.linspace(-14, 14, 2801)


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
