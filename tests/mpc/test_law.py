"""The law's module against brute force, and the certificate's promises."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from parley.mpc import law as module
from parley.mpc.errors import ConfigurationError
from parley.mpc.law import (
    DITHER_BITS,
    STEPS,
    Law,
    NotCertifiableError,
    acceptance,
    cell_probability,
    certify,
    choose_precision,
    density,
    largest,
    law,
    law_of,
    pairs_of_level,
    row_probability,
    smoothed_normal,
)  # fmt: skip
from parley.mpc.reference import Lane, sample
from parley.mpc.tables import Tables, load
from tests.support.lanes import PRESETS


def test_acceptance_and_cells_agree_with_enumerating_the_reference() -> None:
    """A few rows, every m and U: counted one by one through the reference lane."""
    full = load("strips", "standard")
    small = full.format.__class__(**{**vars(full.format), "threshold_bits": 4, "position_bits": 2, "tail_levels": 1})
    rows = np.zeros((2, 16), np.uint8)
    tables = Tables("strips", "standard", small, rows, np.zeros((1, 2, 16), np.uint8))

    def row(threshold: int, slope: int, ratio: int, ratio_slope: int, flag: int = 0) -> np.ndarray[Any, Any]:
        fields = small.fields()
        value = 0
        for name, number in zip(fields, (threshold, slope, ratio, ratio_slope, flag), strict=True):
            start, width = fields[name]
            value |= (number & ((1 << width) - 1)) << start
        return np.frombuffer(value.to_bytes(16, "little"), np.uint8)

    rows[0] = row(12, -5, 700, 64)
    rows[1] = row(0, 0, 0, 0, 1)
    tables.tail[0, 0] = row(9, 6, 1500, 200)
    values = []
    for index in (0, 1):
        for tail_index in (0, 1):
            for m in range(4):
                for u in range(16):
                    outcome = sample(tables, Lane(index, tail_index, 0, m, u, False))
                    values.append(outcome.sample if outcome.accepted else None)
    accepted = [value for value in values if value is not None]
    assert acceptance(tables) == Fraction(len(accepted), len(values))
    assert largest(tables) == Fraction(max(accepted), 1 << small.scale_bits)
    for low, high in ((0, 700), (701, 9000), (5000, 5001), (0, 1 << 40)):
        inside = sum(low <= value < high for value in accepted)
        assert cell_probability(tables, low, high) == Fraction(inside, len(accepted))


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_acceptance_is_the_covers(cover: Any, precision: Any) -> None:
    """sqrt(pi / 8) over the area of the cover: 0.9947 and 0.7306."""
    exact = float(acceptance(load(cover, precision)))
    tables = load(cover, precision)
    if cover == "rectangle":
        assert exact == pytest.approx(math.sqrt(math.pi / 8) / math.sqrt(2 / math.e), abs=3e-8)
    else:
        assert exact == pytest.approx(0.99475, abs=1e-5)
    assert float(largest(tables)) >= 8


def exact_density(tables: Tables, at: int) -> Fraction:
    """P(Y = at), Y the sample plus one server's dither, by exact sums over all atoms of all (row, m).

    With F2(y) the twice-summed law, the hat-shaped dither gives (F2(y) - 2 F2(y - L) + F2(y - 2 L)) / L^2.
    """
    form = tables.format
    width = 1 << (form.scale_bits - DITHER_BITS)

    def twice_summed(y: int) -> Fraction:
        total = Fraction(0)
        for level in range(form.tail_levels + 1):
            pairs = pairs_of_level(tables, level)
            w = pairs.ratio.astype(object)
            t = pairs.threshold.astype(object)
            # atoms (2 j + 1) w for -t <= j < t, each with weight 1/2; how many are at most y?
            below = (np.full(len(w), y, object) - w) // (2 * w)
            count = np.clip(below + 1 + t, 0, 2 * t)
            atoms = w * (count * count - 2 * t * count)  # sum of (2 j + 1) over j = -t .. -t + count - 1
            total += row_probability(tables, level) * int((count * (y + 1) - atoms).sum())
        return total / 2

    parts = twice_summed(at) - 2 * twice_summed(at - width) + twice_summed(at - 2 * width)
    per_lane = parts / (1 << (form.position_bits + form.threshold_bits)) / width**2
    return per_lane / acceptance(tables)


@pytest.mark.parametrize("x", [0.0, 0.0101, 0.11, 1.0007, 2.71, 3.53, 5.2, 7.9])
def test_the_bound_holds_for_the_exact_probability_of_single_points(x: float) -> None:
    """Computed independently: exact rational sums over all atoms, no smoothing argument, no grid."""
    tables = load("strips", "standard")
    bounds = law("strips", "standard")
    scale = 1 << tables.format.scale_bits
    width = 2.0**-DITHER_BITS
    at = round(x * scale)
    mean_of_dither = (1 << (tables.format.scale_bits - DITHER_BITS)) - 1
    exact = float(exact_density(tables, at + mean_of_dither) * scale)
    reference = float(smoothed_normal(np.array([x]), width)[0])
    eta = abs(math.log(exact / reference))
    cell = int(x * STEPS / width)
    assert eta <= bounds.eta[cell]
    assert bounds.eta[cell] < max(50 * eta, 2e-5 if x < 7 else 1e-2)  # and it is no wild overestimate


def test_the_smoothed_normal_is_the_convolution() -> None:
    width = 2.0**-DITHER_BITS
    for x in (0.0, 1.3, 5.0, 9.0):
        t = np.linspace(-width, width, 20001)
        hat = (1 - np.abs(t) / width) / width
        expected = np.trapezoid(density(x - t) * hat, t)
        assert float(smoothed_normal(np.array([x]), width)[0]) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("samples", "epsilon", "precision"),
    [(10**7, 1.0, "standard"), (10**5, 0.2, "standard"), (10**9, 1.0, "high")],
)
def test_presets_keep_their_promise(samples: int, epsilon: float, precision: Any) -> None:
    result = certify(samples, epsilon, 1e-5, "strips", precision)
    assert 0 < result.epsilon_added <= 0.01 * epsilon
    assert 0 < result.delta_added <= 0.01 * 1e-5
    assert result.within()
    assert result.largest >= 8
    assert f"{samples:,}" in result.statement


def test_more_samples_add_more_and_precision_is_chosen_by_them() -> None:
    additions = [certify(n, 1.0, 1e-5).epsilon_added for n in (10**3, 10**5, 10**7, 10**8)]
    assert additions == sorted(additions)
    assert choose_precision(10**5, 1.0, 1e-5) == "standard"
    assert choose_precision(10**8, 1.0, 1e-5) == "high"
    with pytest.raises(NotCertifiableError, match="no preset"):
        choose_precision(10**12, 1.0, 1e-5)


def test_a_certificate_for_broken_tables_is_refused_or_large() -> None:
    """One tail level missing, or ratios half a percent off: the law's module must see it."""
    good = load("strips", "standard")
    for change in ("level", "scale"):
        head, tail = good.head.copy(), good.tail.copy()
        if change == "level":
            tail[1] = 0
        else:
            start, width = good.format.fields()["ratio"]
            ratios = good.field(head, "ratio") * 1005 // 1000
            bits = np.unpackbits(head, axis=1, bitorder="little")
            bits[:, start : start + width] = ratios[:, None] >> np.arange(width) & 1
            head = np.packbits(bits, axis=1, bitorder="little")
        broken = law_of(Tables(good.cover, good.precision, good.format, head, tail))
        assert broken.eta[: 6 * STEPS << DITHER_BITS].max() > 1e-3


@pytest.mark.parametrize(
    ("samples", "epsilon", "delta", "message"),
    [(0, 1, 1e-5, "samples"), (10, 0, 1e-5, "epsilon"), (10, float("nan"), 1e-5, "epsilon"), (10, 51, 1e-5, "epsilon"),
     (10, 1, 0, "delta"), (10, 1, 1, "delta")],
)  # fmt: skip
def test_impossible_questions_are_refused(samples: int, epsilon: float, delta: float, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        certify(samples, epsilon, delta)


def test_bounds_are_on_both_laws_probabilities() -> None:
    bounds = law("strips", "standard")
    assert 1 <= bounds.tail[0] < 1.05  # a left Riemann sum of a falling density, spacing 1/1024
    assert bounds.second_moment < 2e-14
    assert bounds.eta.min() > module.ROUNDING


def two_point_law(step: float, beyond: float) -> Law:
    """A law on two cells whose log-ratio to the reference is +step or -step', so that both add up to one."""
    other = -math.log(2 - math.exp(step))
    tables = load("strips", "standard")
    mass, eta = np.array([0.5, 0.5, beyond]), np.array([step, other, np.inf])
    cells = np.array([0.0, 1.0, 2.0])
    return Law(tables, 1.0, 8.0, cells, mass, eta, np.array([1 + beyond, 0.5 + beyond, beyond]))


@pytest.mark.parametrize(("step", "samples"), [(0.01, 1000), (0.01, 100_000), (0.001, 1_000_000), (0.05, 200)])
def test_chernoffs_bound_covers_an_exact_binomial_tail_and_is_no_wild_overestimate(step: float, samples: int) -> None:
    """Sums of two-point log-ratios, counted exactly under both laws: the two hops of the proof."""
    failure = 1e-6
    xi = float(module._deviations(two_point_law(step, 0.0), np.array([2]), samples, failure)[0])
    other = -math.log(2 - math.exp(step))
    counts = np.arange(samples + 1)
    total = counts * step - (samples - counts) * other
    forward = binom.pmf(counts, samples, 0.5 * math.exp(step))[total > xi].sum()
    backward = binom.pmf(counts, samples, 0.5)[-total > xi].sum()
    assert forward <= failure
    assert backward <= failure
    # At half the bound the event is no longer rare: it is the right size within a factor of two.
    assert binom.pmf(counts, samples, 0.5 * math.exp(step))[total > 0.5 * xi].sum() > failure


def test_both_hops_and_the_tail_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """With log-ratios of zero only the far region is left: N times its mass, once plain and once times e^epsilon."""
    beyond, samples, epsilon, delta = 1e-10, 1000, 2.0, 1e-5
    cells = 4 * STEPS
    eta = np.append(np.zeros(cells), np.inf)
    mass = np.append(np.full(cells, 1 / cells), beyond)
    tail = np.cumsum(mass[::-1])[::-1]
    fake = Law(load("strips", "standard"), 1.0, 8.0, np.arange(cells + 1.0), mass, eta, tail)
    # The cut that certify may choose lies in the last half of a grid of STEPS / 2: make all of them far.
    fake.tail[STEPS:] = beyond
    monkeypatch.setattr(module, "law", lambda cover, precision: fake)
    result = certify(samples, epsilon, delta)
    tails = samples * beyond * (1 + math.exp(epsilon))
    assert result.delta_added >= tails
    assert result.delta_added <= tails + 0.005 * delta + math.expm1(result.epsilon_added) * delta
    widened = Law(fake.tables, 1.0, 8.0, fake.cells, mass, np.where(eta < 1, 1e-3, eta), fake.tail)
    monkeypatch.setattr(module, "law", lambda cover, precision: widened)
    one_hop = min(
        float(module._deviations(widened, np.array([cut]), samples, share * delta / (1 + math.exp(epsilon)))[0])
        for cut in range(STEPS, cells, STEPS // 2)
        for share in (0.001, 0.002, 0.004)
    )
    assert certify(samples, epsilon, delta).epsilon_added >= 2 * one_hop
