"""Batches follow the law that is accounted."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from parley.privacy.sampling import FixedSize, Poisson, Sampler
from tests.support.mechanisms import SOURCE

ALARM = 1e-7
"""Nominal, of each of the four chi-squares here: with counts of twenty and more in a cell the true one is three times
as much at most, so that all of them together fail honest draws less than once in a million runs."""


def test_batches_without_replacement_are_uniform_over_all_subsets() -> None:
    # Chi-square over the C(6, b) subsets.
    for size in (2, 3, 4):
        sampler = FixedSize(6, size)
        counts = Counter(tuple(sorted(sampler.draw(SOURCE).indices)) for _ in range(6000))
        subsets = math.comb(6, size)
        expected = 6000 / subsets
        statistic = sum((counts.get(key, 0) - expected) ** 2 / expected for key in counts)
        statistic += (subsets - len(counts)) * expected
        assert statistic < chi2.isf(ALARM, subsets - 1)


def test_poisson_batches_have_the_binomial_law_up_to_the_cap_and_one_public_length() -> None:
    sampler = Poisson(12, 4, 9)
    sizes: Counter[int] = Counter()
    hits = np.zeros(12)
    for _ in range(6000):
        batch = sampler.draw(SOURCE)
        assert len(batch.indices) == 9
        assert len(set(batch.indices.tolist())) == 9
        sizes[int(batch.present.sum())] += 1
        hits[batch.indices[batch.present]] += 1
    law = [binom.pmf(size, 12, 1 / 3) for size in range(9)] + [binom.sf(8, 12, 1 / 3)]
    statistic = sum((sizes.get(size, 0) - 6000 * p) ** 2 / (6000 * p) for size, p in enumerate(law))
    assert statistic < chi2.isf(ALARM, 9)
    assert np.all(np.abs(hits - hits.mean()) < 6 * math.sqrt(6000 * 2 / 9))


@pytest.mark.parametrize("sampler", [FixedSize(10, 8), FixedSize(12, 3), Poisson(12, 4, 9), Poisson(9, 6, 9)])
def test_each_unit_s_place_is_drawn_whatever_else_is_in_the_batch(sampler: Sampler) -> None:
    """Unit 0 stands at every place equally often, and so does unit 1 given where 0 is: one unit more or less moves no
    other. Each chi-square alarms falsely once in 2e7 runs."""
    size, draws = sampler.length, 12_000
    of_zero, of_one = np.zeros(size), np.zeros(size - 1)
    for _ in range(draws):
        batch = sampler.draw(SOURCE)
        places = {int(unit): place for place, unit in enumerate(batch.indices) if batch.present[place]}
        if 0 in places:
            of_zero[places[0]] += 1
            if 1 in places:
                of_one[places[1] - (places[1] > places[0])] += 1
    for counts in (of_zero, of_one):
        expected = counts.sum() / len(counts)
        assert expected > 50
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(5e-8, len(counts) - 1)


@given(st.integers(1, 3000), st.data())
@settings(max_examples=60)
def test_the_overflow_probability_is_never_understated(units: int, data: st.DataObject) -> None:
    expected = data.draw(st.integers(1, units))
    cap = data.draw(st.integers(expected, units))
    exact = float(binom.sf(cap, units, expected / units))
    assert Poisson(units, expected, cap).overflow_probability >= exact * (1 - 1e-9)


def test_the_default_cap_is_the_smallest_that_keeps_the_allowance() -> None:
    sampler = Poisson.with_overflow(32561, 100, 651, 1e-8)
    assert 651 * sampler.overflow_probability <= 1e-8
    assert 651 * Poisson(32561, 100, sampler.cap - 1).overflow_probability > 1e-8
