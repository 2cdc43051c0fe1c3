"""Pairs of distributions that stand for one release, and their privacy loss on a lattice. Needs the `accounting` extra.

A pair (P, Q) on the real line whose hockey-stick divergence H_α(P‖Q) bounds that of the release for every α and every
pair of neighbours *dominates* it, and the composition of dominating pairs dominates any adaptive composition (Zhu,
Dong and Wang 2022, Theorem 10). Which pair dominates which sampler, and why, is derived in docs/privacy-wor-profile.md
(§ 2 without replacement, § 3 Poisson). All normals have deviation 1, so a shift is 1 over a noise multiplier.

`pessimistic` puts the loss on multiples of `step` by connecting the dots (Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022, Algorithm 1) in the form that keeps the masses of every cell under P and under Q: no second
differences of δ, which at step 1e-5 would be all rounding error. `optimistic` merges cells, which can only lose.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from parley.privacy.event import NeighbouringRelation, SampledGaussian

Floats = npt.NDArray[np.float64]

NORMAL_ERROR = 5e-14
"""Bound on the relative error of scipy's `ndtr`; its source (Cephes) states 3.4e-14 for −13 < x < 0."""


@dataclass(frozen=True)
class Mixture:
    """A finite mixture of normals of deviation 1, as (weight, mean)."""

    components: tuple[tuple[float, float], ...]

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """The mass between consecutive edges, and a bound on its rounding error; tails keep relative precision."""
        total = np.zeros(len(edges) - 1)
        error = np.zeros(len(edges) - 1)
        for weight, mean in self.components:
            upper, lower = ndtr(mean - edges), ndtr(edges - mean)
            right = edges[:-1] > mean
            total += weight * np.where(right, upper[:-1] - upper[1:], lower[1:] - lower[:-1])
            error += weight * np.where(right, upper[:-1], lower[1:])
        return np.maximum(total, 0.0), NORMAL_ERROR * error


@dataclass(frozen=True)
class Pair:
    """P and Q with a loss log(dP/dQ) that increases along the line, and its inverse.

    With `mirrored`, only the half-line where the loss is positive counts; the other half is its mirror image (P and Q
    exchanged), and what mass is left over lies at loss zero. That is how the profile of sampling without replacement
    becomes the profile of one pair.
    """

    upper: Mixture
    lower: Mixture
    place: Callable[[Floats], Floats]
    """Where a given loss is reached; −inf or +inf where it never is."""
    loss: Callable[[float], float]
    highest_mean: float
    lowest_mean: float
    mirrored: bool


@dataclass(frozen=True)
class LatticeLoss:
    """Masses under P of the losses `(first + i) · step`, and the mass charged as infinite loss."""

    step: float
    first: int
    masses: Floats
    infinite: float
    shift: float = 0.0
    """Subtracted from every loss: what an optimistic rounding owes."""


def mixed(rate: float, *means: float) -> Mixture:
    """(1 − rate)·N(0) + rate·N(mean)."""
    return Mixture(((1 - rate, 0.0), *((rate, mean) for mean in means)) if rate < 1 else ((1.0, means[0]),))


def _log_ratio(rate: float, shift: float, x: float) -> float:
    """log of ((1 − τ) + τ·dN(shift)/dN(0)) at x."""
    exponent = shift * x - shift * shift / 2
    if rate == 1:
        return exponent
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + exponent))


def _place_of_ratio(rate: float, shift: float, losses: Floats) -> Floats:
    """The inverse of `_log_ratio`; losses at or below log(1 − τ) are never reached."""
    with np.errstate(over="ignore", divide="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(losses, 30.0)) / rate, -1.0))
        large = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, 30.0)))
    return np.where(losses < 30.0, small, large) / shift + shift / 2


def sampled_pair(rate: float, shift: float, reverse: bool = False) -> Pair:
    """(1 − τ)·N(0) + τ·N(shift) against N(0), or the reverse: one record among others that all agree."""
    mixture, base = mixed(rate, shift), Mixture(((1.0, 0.0),))
    if not reverse:
        return Pair(
            mixture,
            base,
            lambda losses: _place_of_ratio(rate, shift, losses),
            lambda x: _log_ratio(rate, shift, x),
            shift,
            0.0,
            mirrored=False,
        )
    return Pair(
        base,
        mixed(rate, -shift),
        lambda losses: -_place_of_ratio(rate, shift, -losses),
        lambda x: -_log_ratio(rate, shift, -x),
        0.0,
        -shift,
        mirrored=False,
    )


def without_replacement_pair(rate: float, shift: float) -> Pair:
    """The symmetric pair of sampling without replacement under replace-one."""
    half = sampled_pair(rate, shift)
    return Pair(half.upper, half.lower, half.place, half.loss, shift, 0.0, mirrored=True)


def poisson_replace_pair(rate: float, shift: float) -> Pair:
    """(1 − τ)·N(0) + τ·N(shift/2) against (1 − τ)·N(0) + τ·N(−shift/2): opposite gradients are the worst case."""
    odds = math.log((1 - rate) / rate) + shift * shift / 8 if rate < 1 else -math.inf

    def place(losses: Floats) -> Floats:
        # u = exp(x·shift/2) solves a quadratic; log u = ℓ/2 + asinh(((1−τ)/τ)·exp(shift²/8)·sinh(ℓ/2)), in logarithms.
        size = np.abs(losses)
        with np.errstate(divide="ignore"):
            log_sinh = size / 2 + np.log(-np.expm1(-size) / 2)
        exponent = odds + log_sinh
        with np.errstate(over="ignore"):
            inverse = np.where(exponent > 30, exponent + math.log(2), np.arcsinh(np.exp(np.minimum(exponent, 30.0))))
        return np.sign(losses) * (size / 2 + inverse) * 2 / shift

    def loss(x: float) -> float:
        return _log_ratio(rate, shift / 2, x) - _log_ratio(rate, shift / 2, -x)

    return Pair(mixed(rate, shift / 2), mixed(rate, -shift / 2), place, loss, shift / 2, -shift / 2, mirrored=True)


def dominating_pairs(release: SampledGaussian, relation: NeighbouringRelation) -> tuple[Pair, ...]:
    """Pairs of which one dominates in each direction; a symmetric pair stands for both."""
    rate, shift = release.sampler.rate, 1 / release.noise_multiplier
    if relation is NeighbouringRelation.ADD_OR_REMOVE:
        # One unit joins or leaves: half the replace-one sensitivity.
        return sampled_pair(rate, shift / 2), sampled_pair(rate, shift / 2, reverse=True)
    if release.sampler.kind == "wor":
        return (without_replacement_pair(rate, shift),)
    return (poisson_replace_pair(rate, shift),)


def attainable_pairs(release: SampledGaussian, relation: NeighbouringRelation) -> tuple[Pair, ...]:
    """Pairs that two actual data sets reach, one per direction: no accountant can go below them."""
    if relation is NeighbouringRelation.REPLACE_ONE and release.sampler.kind == "wor":
        rate, shift = release.sampler.rate, 1 / release.noise_multiplier
        return sampled_pair(rate, shift), sampled_pair(rate, shift, reverse=True)
    return dominating_pairs(release, relation)


def loss_range(pair: Pair, tail: float) -> tuple[float, float]:
    """Losses outside of which P has at most `tail` mass on each side."""
    reach = -float(ndtri(tail))
    highest = pair.loss(pair.highest_mean + reach)
    if pair.mirrored:
        return -highest, highest
    return pair.loss(pair.lowest_mean - reach), highest


def root_mean_square_loss(pair: Pair) -> float:
    """The scale of one release's loss; it picks the lattice and decides nothing else."""
    reach = 9.0
    x = np.linspace(pair.lowest_mean - reach, pair.highest_mean + reach, 2001)
    density: Floats = np.zeros(len(x))
    for weight, mean in pair.upper.components:
        density += weight * np.exp(-((x - mean) ** 2) / 2)
    losses = np.array([pair.loss(float(value)) for value in x])
    if pair.mirrored:
        density = density * (losses > 0)
    return float(np.sqrt(np.sum(density * losses**2) / (math.sqrt(2 * math.pi)) * (x[1] - x[0])))


def points(step: float, low: int, high: int) -> Floats:
    """The lattice points low·step … (high − 1)·step."""
    return step * np.arange(low, high, dtype=np.float64)


def _split(upper: Floats, upper_error: Floats, lower: Floats, lower_error: Floats, losses: Floats) -> Floats:
    """Spread each cell's mass over its two ends so that both masses are kept; rounding goes to the higher loss."""
    step = losses[1] - losses[0]
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.exp(losses[:-1])
        to_right = (upper - scale * lower) / -math.expm1(-step)
        error = (upper_error + scale * lower_error + 4e-16 * upper) / -math.expm1(-step)
    mass = upper + upper_error
    # Where exp overflows nothing is known about the split: all of the mass goes to the higher end.
    bounded = np.where(np.isfinite(to_right + error), np.clip(to_right, 0.0, None) + error, mass)
    to_right = np.minimum(bounded, mass)
    result = np.zeros(len(losses))
    result[1:] += to_right
    result[:-1] += mass - to_right
    return result


def pessimistic(pair: Pair, step: float, tail: float) -> LatticeLoss:
    """A lattice loss that dominates the pair's."""
    low, high = loss_range(pair, tail)
    top = math.ceil(high / step)
    if not pair.mirrored:
        bottom = math.floor(low / step)
        losses = points(step, bottom, top + 1)
        edges = pair.place(losses)
        upper, upper_error = pair.upper.masses(edges)
        lower, lower_error = pair.lower.masses(edges)
        masses = _split(upper, upper_error, lower, lower_error, losses)
        # What lies below the lattice is moved up to its first point.
        masses[0] += _tail(pair.upper, -edges[0], sign=-1)
        return LatticeLoss(step, bottom, masses, _tail(pair.upper, edges[-1]))
    losses = points(step, 0, top + 1)
    edges = pair.place(losses)
    upper, upper_error = pair.upper.masses(edges)
    lower, lower_error = pair.lower.masses(edges)
    positive = _split(upper, upper_error, lower, lower_error, losses)
    negative = _split(lower[::-1], lower_error[::-1], upper[::-1], upper_error[::-1], -losses[::-1])
    masses = np.zeros(2 * top + 1)
    masses[top:] += positive
    masses[: top + 1] += negative
    beyond_upper, beyond_lower = _tail(pair.upper, edges[-1]), _tail(pair.lower, edges[-1])
    masses[0] += beyond_lower
    # The two halves and their tails hold all of P but for what the mirror left over, which has loss zero.
    halves = float(np.sum(upper) + np.sum(lower)) + beyond_upper + beyond_lower
    masses[top] += max(0.0, 1.0 - halves) + NORMAL_ERROR
    return LatticeLoss(step, -top, masses, beyond_upper)


def optimistic(pair: Pair, step: float, tail: float) -> LatticeLoss:
    """A lattice loss that the pair dominates: outcomes are merged into cells, and far cells are left out.

    A merged cell's loss is log of its masses' ratio, which differs from the cell's lattice point by O(step²); the
    largest shortfall over all cells is owed once per release, as `shift`.
    """
    low, high = loss_range(pair, tail)
    top = math.ceil(high / step)
    bottom = math.floor(low / step)
    losses = points(step, bottom, top + 1)
    edges = pair.place(points(step, bottom, top + 2) - step / 2)
    upper, upper_error = pair.upper.masses(edges)
    lower, lower_error = pair.lower.masses(edges)
    kept = (upper > tail * 1e-6) & (upper_error < 1e-6 * upper)
    if pair.mirrored:
        # A mirrored pair that is attained (Poisson) covers the whole line already.
        kept &= np.isfinite(edges[:-1]) & np.isfinite(edges[1:])
    with np.errstate(divide="ignore"):
        ratio = np.log(upper[kept] - upper_error[kept]) - np.log(lower[kept] + lower_error[kept])
    owed = float(np.max(losses[kept] - ratio, initial=0.0))
    return LatticeLoss(step, bottom, np.where(kept, upper - upper_error, 0.0), 0.0, owed)


def _tail(mixture: Mixture, edge: float, sign: int = 1) -> float:
    """The mass beyond `edge` (or, with sign −1, below −edge), from above."""
    mass = sum(weight * float(ndtr(sign * mean - edge)) for weight, mean in mixture.components)
    return mass * (1 + NORMAL_ERROR)
