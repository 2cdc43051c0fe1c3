"""Batches follow the law that is accounted."""

import math
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from parley.privacy.sampling import FixedSize, Poisson
from tests.support.mechanisms import SOURCE

ALARM = 1e-7
"""Nominal, of each of the four chi-squares here: with counts of twenty and more in a cell the true one is three times
as much at most, so that all of them together fail honest draws less than once in a million runs."""


def test_batches_without_replacement_are_uniform_over_all_subsets() -> None:
    # Chi-square over the C(6, b) subsets.
    for size in (2, 3, 4):
        sampler = FixedSize(6, size)
        counts = Counter(tuple(sampler.draw(SOURCE).indices) for _ in range(6000))
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
