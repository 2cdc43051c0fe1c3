"""Integers below a bound are uniform."""

from collections import Counter
from typing import ClassVar

from scipy.stats import chi2

from parley.privacy.randomness import uniform_below
from tests.support.mechanisms import SOURCE


def test_integers_below_a_bound_are_uniform() -> None:
    counts = Counter(uniform_below(SOURCE, 7) for _ in range(7000))
    assert sum((counts[i] - 1000) ** 2 / 1000 for i in range(7)) < chi2.isf(1e-6, 6)


def test_rejection_sampling_draws_again_where_a_remainder_would_favour_small_numbers() -> None:
    class Scripted:
        words: ClassVar[list[int]] = [(1 << 64) - 1, 5]

        def read(self, count: int) -> bytes:
            return self.words.pop(0).to_bytes(count, "little")

    assert uniform_below(Scripted(), 3) == 5 % 3
    assert Scripted.words == []
