"""The exact law of the sampler, and what its finite precision adds to a privacy claim: a proof, not an estimate.

A released coordinate is ceil((2^k G + X + R + c) / 2^k): G the data, X the sampler's integer (a standard normal times
S = 2^scale_bits), R the honest server's dither, c what the other server knows and what depends on neither. It is a
function of Y = X + R, whatever k and c are; so it is enough to compare the law of Y with that of Z + R, where
Z = round(S N) for N ~ N(0, 1), whose release is a post-processing of the Gaussian mechanism. In short
(docs/noise-law.md has the proofs):

ATOMS    Given row and m, |X| takes T values (2U + 1) W with equal weight. Summed against the hat-shaped law of R they
         differ from a uniform density on [0, 2 T W) by at most a fraction (2 W / L)^2 / 2, L the width of R's uniforms.
NODES    Up to that, Y's law is the staircase f(x) = sum_i a_i [|x| < e_i] smoothed by the hat. It is evaluated at the
         nodes of a grid from all (row, m), none left out.
BETWEEN  Between nodes, (f - phi) * hat deviates from a straight line by at most max|f - phi| / (2 STEPS^2), and
         |f - phi| is largest at one of f's steps, where it is evaluated.
TAIL     So |eta| = |log(law / reference)| is bounded cell by cell. Chernoff's bound on the sum of N of them gives xi at
         delta', and the region beyond the last good cell goes to delta.

Enumerated: all rows, all m, every step of f, every node. Proved: the step between nodes, the atoms, the sums.
Floating-point sums are of positive terms; ROUNDING covers their error.
"""

import contextlib
import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError, MpcError
from parley.mpc.tables import GO_ON, Cover, Precision, Tables, load, rise

DITHER_BITS = 6
"""Each server adds two independent uniforms of width 2^-6 standard deviations to its share."""
LARGEST_EXPONENT = 600.0
ROUNDING = 1e-9
"""Relative; far above what summing so many positive terms in floating point can lose."""
STEPS = 16
"""Grid nodes per dither width."""
ROUNDING = 1e-9
"""Relative: at most 3.7 million terms per sum, each rounded by 2^-53 at most, that is 4.1e-10; with room."""

Floats = NDArray[np.float64]


class NotCertifiableError(MpcError):
    """The sampler is not precise enough for so many samples."""


@dataclass(frozen=True)
class Pairs:
    """One entry per (used row, m): probability of the row times 1/M, threshold and ratio."""

    probability: Floats
    threshold: NDArray[np.int64]
    ratio: NDArray[np.int64]


def row_probability(tables: Tables, level: int) -> Fraction:
    """Of one row of a level (0 is the head) before acceptance."""
    rows = tables.tail.shape[1]
    if level == 0:
        return Fraction(1, len(tables.head))
    flagged = Fraction(int(tables.field(tables.head, "flag").sum()), len(tables.head))
    stay = Fraction(1) if level == tables.format.tail_levels else Fraction(GO_ON - 1, GO_ON)
    return flagged * stay / Fraction(GO_ON ** (level - 1) * rows)


def pairs_of_level(tables: Tables, level: int) -> Pairs:
    """All (row, m) of one level that can be accepted."""
    rows = tables.head if level == 0 else tables.tail[level - 1]
    bits = tables.format.position_bits
    ratio = tables.field(rows, "ratio")
    used = ratio > 0
    threshold = tables.field(rows, "threshold")[used, None] + rise(tables.field(rows, "threshold_slope")[used], bits)
    ratios = ratio[used, None] + rise(tables.field(rows, "ratio_slope")[used], bits)
    weight = float(row_probability(tables, level) / (1 << bits))
    return Pairs(np.full(threshold.size, weight), threshold.ravel(), ratios.ravel())


def acceptance(tables: Tables) -> Fraction:
    """Exact probability that a lane is accepted."""
    form = tables.format
    total = Fraction(0)
    for level in range(form.tail_levels + 1):
        total += row_probability(tables, level) * int(pairs_of_level(tables, level).threshold.sum())
    return total / (1 << (form.position_bits + form.threshold_bits))


def largest(tables: Tables) -> Fraction:
    """Exact largest |x| the sampler can return, in standard deviations, dither aside."""
    value = 0
    for level in range(tables.format.tail_levels + 1):
        pairs = pairs_of_level(tables, level)
        value = max(value, int(((2 * pairs.threshold - 1) * pairs.ratio).max(initial=0)))
    return Fraction(value, 1 << tables.format.scale_bits)


def cell_probability(tables: Tables, low: int, high: int) -> Fraction:
    """Exact P(low <= |X| < high | accepted) for integers 0 <= low < high, in units of 2^-scale_bits: every (row, m)
    counted.
    """
    form = tables.format
    total = Fraction(0)
    for level in range(form.tail_levels + 1):
        pairs = pairs_of_level(tables, level)
        # (2U + 1) W < x  <=>  U < ceil((x - W) / 2W)
        below = [-((pairs.ratio - x) // (2 * pairs.ratio)) for x in (low, high)]
        inside = np.clip(below[1], 0, pairs.threshold) - np.clip(below[0], 0, pairs.threshold)
        total += row_probability(tables, level) * int(inside.sum())
    return total / (1 << (form.position_bits + form.threshold_bits)) / acceptance(tables)


def density(x: Floats) -> Floats:
    """phi, the standard normal density."""
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def smoothed_normal(x: Floats, width: float) -> Floats:
    """phi convolved with a hat of half-width `width`: Taylor's series to the sixth derivative (rest: docs/noise-
    law.md).
    """
    y = x * x
    second = y - 1
    fourth = (y - 6) * y + 3
    sixth = ((y - 15) * y + 45) * y - 15
    return np.asarray(
        density(x) * (1 + width**2 / 12 * second + width**4 / 360 * fourth + width**6 / 20160 * sixth),
    )


@dataclass(frozen=True)
class Law:
    """Bounds on eta = log(law of Y / reference), cell by cell, on the half-line; both laws are symmetric."""

    tables: Tables
    acceptance: float
    largest: float
    cells: Floats
    """Left ends of the cells, in standard deviations."""
    mass: Floats
    """Upper bound on either law's probability of the cell, both signs together."""
    eta: Floats
    """Upper bound on |eta| in the cell; infinite where the law may vanish."""
    tail: Floats
    """Upper bound on either law's probability of this cell and all beyond, both signs."""

    @property
    def second_moment(self) -> float:
        """Bound on E[eta^2] over the cells with |eta| <= 0.01."""
        good = self.eta <= 0.01
        return float((self.mass[good] * self.eta[good] ** 2).sum())


@cache
def law(cover: Cover, precision: Precision) -> Law:
    """Enumerate a preset's tables. A few seconds."""
    return law_of(load(cover, precision))


def law_of(tables: Tables) -> Law:
    form = tables.format
    accept = acceptance(tables)
    parts = [pairs_of_level(tables, level) for level in range(form.tail_levels + 1)]
    ratio = np.concatenate([p.ratio for p in parts]) / 2.0**form.ratio_fraction_bits
    edge = np.concatenate([p.threshold for p in parts]) / 2.0**form.threshold_bits * ratio
    # Two signs: on each side of zero a pair has density probability / (2 W acceptance).
    step = np.concatenate([p.probability for p in parts]) / (2 * ratio * float(accept))
    order = np.argsort(edge)
    edge, step, ratio = edge[order], step[order], ratio[order]

    width = 2.0**-DITHER_BITS
    spacing = width / STEPS
    nodes = np.arange(math.ceil((edge[-1] + width) / spacing) + STEPS + 2) * spacing
    staircase = _suffix(step)  # f just left of each edge
    atoms = _suffix(step * (ratio * 2.0 ** (DITHER_BITS - form.threshold_bits)) ** 2 / 2)
    smooth = _smoothed_staircase(edge, step, nodes, spacing)
    reference = smoothed_normal(nodes, width)

    # |f - phi| is largest at a step: just left of edge i f is staircase[i], just right of it staircase[i + 1].
    gap = np.maximum(
        np.abs(staircase - density(edge)),
        np.abs(np.append(staircase[1:], 0.0) - density(edge)),
    )
    worst_gap = _maximum_per_cell(edge, gap, spacing, len(nodes))
    worst_gap[0] = max(worst_gap[0], abs(float(staircase[0]) - float(density(np.zeros(1))[0])))
    # (f - phi) * hat has second derivative ((f - phi)(x - width) - 2 (f - phi)(x) + (f - phi)(x + width)) / width^2.
    cells = np.arange(len(nodes))
    # On the far side of zero cell -1 - i mirrors cell i.
    places = [np.where(cells + k < 0, -1 - (cells + k), cells + k) for k in (-STEPS, 0, STEPS)]
    reach = np.maximum.reduce([worst_gap[np.minimum(place, len(cells) - 1)] for place in places])

    left, right = slice(0, -1), slice(1, None)
    lower = np.minimum(np.minimum(smooth[left], smooth[right]), np.minimum(reference[left], reference[right]))
    nodal = np.maximum(np.abs(smooth - reference)[left], np.abs(smooth - reference)[right])
    between = reach[left] / (2 * STEPS**2)
    index = np.minimum(np.searchsorted(edge, np.maximum(nodes[left] - width, 0)), len(edge) - 1)
    difference = nodal + between + atoms[index] + ROUNDING * smooth[left]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_bound = np.where(lower > 2 * difference, difference / (lower - difference), np.inf)
    eta = np.where(np.isfinite(ratio_bound), ratio_bound, np.inf)
    mass = 2 * spacing * np.maximum(np.maximum(smooth[left], reference[left]) * (1 + ROUNDING) + difference, 0)
    beyond = math.erfc((nodes[-1] - width) / math.sqrt(2))
    return Law(tables, float(accept), float(largest(tables)), nodes[left], mass, eta, _suffix(mass) + beyond)


def _suffix(values: Floats) -> Floats:
    """Sums from the far end, where the terms are smallest."""
    return np.asarray(np.cumsum(values[::-1])[::-1], np.float64)


def _maximum_per_cell(edge: Floats, values: Floats, spacing: float, cells: int) -> Floats:
    """Largest value among each cell's edges, the last one before it and the first one after it: between two edges the
    staircase is level and phi monotone, so their distance is largest at one of the two.
    """
    starts = np.searchsorted(edge, np.arange(cells + 1) * spacing)
    out = np.zeros(cells)
    np.maximum.at(out, np.minimum((edge / spacing).astype(np.int64), cells - 1), values)
    before = np.where(starts[:-1] > 0, values[np.maximum(starts[:-1] - 1, 0)], 0.0)
    after = np.where(starts[1:] < len(edge), values[np.minimum(starts[1:], len(edge) - 1)], 0.0)
    return np.asarray(np.maximum.reduce([out, before, after]), np.float64)


def _smoothed_staircase(edge: Floats, step: Floats, nodes: Floats, spacing: float) -> Floats:
    """sum_i step_i * H((e_i - c) / width) at every node c, H the hat's integral: per cell, moments about the cell's
    left end.
    """
    cells = len(nodes)
    cell = np.minimum((edge / spacing).astype(np.int64), cells - 1)
    local = edge / spacing - cell
    moments = [np.bincount(cell, step * local**p, cells).astype(np.float64) for p in range(3)]
    beyond = np.append(_suffix(moments[0]), 0.0)
    total = np.zeros(cells)
    for shift in range(-STEPS, STEPS):
        # cell i + shift seen from node i: z = (shift + local) / STEPS in [-1, 1)
        at = np.arange(cells) + shift
        inside = (at >= 0) & (at < cells)
        m0, m1, m2 = (np.where(inside, m[np.clip(at, 0, cells - 1)], 0.0) for m in moments)
        if shift < 0:  # (1 + z)^2 / 2
            a = STEPS + shift
            total += (a * a * m0 + 2 * a * m1 + m2) / (2 * STEPS**2)
        else:  # 1 - (1 - z)^2 / 2
            a = STEPS - shift
            total += m0 - (a * a * m0 - 2 * a * m1 + m2) / (2 * STEPS**2)
    total += beyond[np.minimum(np.arange(cells) + STEPS, cells)]
    # Within a dither width of zero the mirror image's far edges, at -e_i, are seen as well.
    for node in range(min(STEPS, cells)):
        near = edge < spacing * (STEPS - node)
        z = (-edge[near] - nodes[node]) / (spacing * STEPS)
        total[node] -= float((step[near] * (1 + z) ** 2 / 2).sum())
    return total


def _up(value: float, digits: int) -> str:
    """At least `value`, to so many significant digits: a bound is never rounded down."""
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):.{digits}g}"


@dataclass(frozen=True)
class Certificate:
    """What finite precision adds to (epsilon, delta) for `samples` Gaussians, whatever was sampled, clipped or
    adapted.
    """

    samples: int
    epsilon: float
    delta: float
    cover: Cover
    precision: Precision
    xi: float
    """One hop between the two laws moves log-probabilities by at most this, outside of an event of probability:"""
    hop_delta: float
    delta_added: float
    largest: float
    acceptance: float
    second_moment: float

    @property
    def epsilon_added(self) -> float:
        """There are two hops, one under each data set."""
        return 2 * self.xi

    @property
    def statement(self) -> str:
        return (
            f"If exact Gaussian noise gives ({self.epsilon:g}, {self.delta:g})-differential privacy, the noise that "
            f"the two servers sample ({self.precision} precision, {self.cover}) gives "
            f"({_up(self.epsilon + self.epsilon_added, 6)}, {_up(self.delta + self.delta_added, 6)}) over "
            f"{self.samples:,} samples: finite precision adds at most {_up(self.epsilon_added, 3)} to epsilon and "
            f"{_up(self.delta_added, 3)} to delta. "
            f"This is a bound: every row, position and step of the density is enumerated, the rest is proved "
            f"(docs/noise-law.md)."
        )

    def within(self, share: float = 0.01) -> bool:
        """Whether both additions stay under this share of epsilon and of delta."""
        return bool(self.epsilon_added <= share * self.epsilon and self.delta_added <= share * self.delta)


def certify(
    samples: int, epsilon: float, delta: float, cover: Cover = "strips", precision: Precision = "standard"
) -> Certificate:
    """The certificate of one preset. Raises where nothing can be certified."""
    if samples < 1:
        raise ConfigurationError(
            f"samples is {samples}: give the run's number of Gaussians, which is dimension times releases"
        )
    if not 0 < epsilon <= 50:
        raise ConfigurationError(f"epsilon is {epsilon}: give a positive number, at most 50")
    if not 0 < delta < 1:
        raise ConfigurationError(f"delta is {delta}: give a number between 0 and 1")
    bounds = law(cover, precision)
    growth = math.exp(epsilon)
    cuts = np.flatnonzero(np.isfinite(bounds.eta))[STEPS :: STEPS // 2]
    best: tuple[float, float, float] | None = None
    for share in (0.001, 0.002, 0.004):  # of delta, for the two hops' delta' together
        slack = share * delta / (1 + growth)
        for cut, xi in zip(cuts, _deviations(bounds, cuts, samples, slack), strict=True):
            outside = samples * float(bounds.tail[cut])
            if outside > delta or not xi <= 1:
                continue
            hop = slack + outside
            added = math.expm1(xi) * delta + hop + growth * math.exp(xi) * hop
            if best is None or max(2 * xi / epsilon, added / delta) < max(2 * best[0] / epsilon, best[2] / delta):
                best = (float(xi), hop, added)
    if best is None or delta + best[2] >= 1:
        raise NotCertifiableError(
            f"{precision} precision cannot certify {samples:,} samples at epsilon = {epsilon:g}, delta = {delta:g}: "
            "use `high` precision, fewer rounds, fewer parameters, or a larger epsilon"
        )
    return Certificate(
        samples, epsilon, delta, cover, precision, *best, bounds.largest, bounds.acceptance, bounds.second_moment,
    )  # fmt: skip


def _deviations(bounds: Law, cuts: NDArray[np.int64], samples: int, failure: float) -> NDArray[np.float64]:
    """For each cut, xi with P(sum of `samples` etas > xi) <= failure, cells before the cut only: min over s of
    Chernoff's bound (TAIL).

    log E[exp(s eta)] <= (1 + s) tail + (1 + s)^2 V(s) / 2,  V(s) = sum of mass eta^2 exp((1 + s) eta)
    """
    last = int(cuts.max())
    mass, eta, outside = bounds.mass[:last], bounds.eta[:last], bounds.tail[cuts]
    whole = np.logical_and.accumulate(np.isfinite(eta))[cuts - 1]
    largest = np.maximum.accumulate(np.where(np.isfinite(eta), eta, 0.0))[cuts - 1]
    weight = np.where(np.isfinite(eta), mass * eta**2, 0.0)
    best = np.full(len(cuts), np.inf)
    for s in np.geomspace(1, 1e9, 181):
        sound = whole & ((1 + s) * largest <= LARGEST_EXPONENT)
        if not sound.any():
            break
        reach = int(cuts[sound].max())
        terms = weight[:reach] * np.exp(np.minimum((1 + s) * np.where(np.isfinite(eta[:reach]), eta[:reach], 0.0), 600))
        v = (1 + ROUNDING) * np.cumsum(terms)[cuts[sound] - 1]
        xi = (samples * ((1 + s) * outside[sound] + (1 + s) ** 2 * v / 2) - math.log(failure)) / s
        best[sound] = np.minimum(best[sound], xi)
    return best


def choose_precision(samples: int, epsilon: float, delta: float, cover: Cover = "strips") -> Precision:
    """The cheapest preset whose additions stay within 1 % of epsilon and of delta."""
    presets: tuple[Precision, ...] = ("standard", "high")
    for precision in presets:
        with contextlib.suppress(NotCertifiableError):
            if certify(samples, epsilon, delta, cover, precision).within():
                return precision
    raise NotCertifiableError(
        f"no preset keeps {samples:,} samples within 1 % of epsilon = {epsilon:g} and delta = {delta:g}: "
        "use fewer rounds, fewer parameters, or a larger epsilon"
    )
