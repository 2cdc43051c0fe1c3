"""The sampler in the clear: the same computation, the same law."""

import itertools

import numpy as np

from parley.mpc.clear import ClearSampler
from parley.mpc.law import acceptance, cell_probability
from parley.mpc.randomness import Csprng
from parley.mpc.reference import Lane, sample
from parley.mpc.tables import FORMATS, load


def test_the_clear_sampler_computes_what_the_reference_computes() -> None:
    """Lane by lane, from the same random choices."""
    tables = load("strips", "standard")
    form = FORMATS["standard"]
    lanes = 4000
    words = Csprng(bytes(32)).words(3, lanes)
    found = iter(ClearSampler(tables, Csprng(bytes(32))).accepted(lanes).tolist())
    accepted = 0
    for first, second, third in words.T.tolist():
        level = 0
        while level < form.tail_levels - 1 and third >> 4 * level & 15 == 0:
            level += 1
        lane = Lane(
            first & 2047, first >> 11 & (1 << form.tail_bits) - 1, level,
            first >> 11 + form.tail_bits & (1 << form.position_bits) - 1,
            second & (1 << form.threshold_bits) - 1, bool(second >> form.threshold_bits & 1),
        )  # fmt: skip
        outcome = sample(tables, lane)
        if outcome.accepted:
            accepted += 1
            assert next(found) == outcome.sample
    assert accepted > 0.98 * lanes
    assert next(found, None) is None


def test_the_clear_sampler_has_the_protocols_distribution() -> None:
    """Chi-square against the exactly enumerated law, tails included; false alarms: one in a million."""
    tables = load("strips", "standard")
    sampler = ClearSampler(tables, Csprng(b"\x07" * 32))
    lanes = 1 << 20
    values = np.abs(sampler.accepted(lanes))
    # The acceptance rate: six standard deviations.
    rate = float(acceptance(tables))
    assert abs(len(values) - lanes * rate) < 6 * np.sqrt(lanes * rate * (1 - rate))
    scale = tables.format.scale_bits
    edges = [round(edge * 2**scale) for edge in (0, 0.3, 0.7, 1, 1.5, 2, 2.5, 3, 3.5, 4)]
    expected = np.array([float(cell_probability(tables, low, high)) for low, high in itertools.pairwise(edges)])
    expected = np.append(expected, 1 - expected.sum()) * len(values)
    counted = np.histogram(values, [*edges, 1 << 62])[0]
    statistic = float(((counted - expected) ** 2 / expected).sum())
    # The 1 - 1e-6 quantile of chi-square with 9 degrees of freedom is 45.07.
    assert statistic < 45.07
