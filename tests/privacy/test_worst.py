"""The parties that a claim is computed of hold its largest epsilon, and however many sizes there are, they are few."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.privacy.accountants import accountant
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.sampling import FixedSize, Poisson, Sampler
from parley.privacy.worst import MOST_READINGS, worst

PLD = accountant("pld")


def event(first: Sampler, later: Sampler) -> Event:
    return Event((SampledGaussian(first, 2.0, 1), SampledGaussian(later, 2.0, 20)))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(50, 400), st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=8))
def test_nobody_left_out_is_less_protected(sizes: list[tuple[int, int, int]]) -> None:
    events = {f"p{n}": event(FixedSize(u, a), FixedSize(u, b)) for n, (u, a, b) in enumerate(sizes)}
    kept = worst(events, PLD)
    assert set(kept) <= set(events)
    most = max(PLD.epsilon(each, 1e-5).epsilon for each in kept.values())
    # Readings are rounded upwards, by up to 3e-4 of themselves.
    assert max(PLD.epsilon(each, 1e-5).epsilon for each in events.values()) <= most * (1 + 3e-4)


def test_thousands_of_sizes_are_one_reading_and_what_is_ordered_by_nothing_is_refused() -> None:
    ordered = {f"p{n}": event(FixedSize(1000 + n, 5), FixedSize(1000 + n, 5)) for n in range(5000)}
    assert list(worst(ordered, PLD)) == ["p0"]
    crossed = {f"p{n}": event(FixedSize(1000, 1 + n), FixedSize(1000, 100 - n)) for n in range(MOST_READINGS + 1)}
    with pytest.raises(InvalidParameterError, match="use fewer sizes"):
        worst(crossed, PLD)
    with pytest.raises(InvalidParameterError, match="use fewer sizes"):
        worst(ordered, accountant("paper"))


def test_a_padded_batch_counts_by_its_overflow_too() -> None:
    narrow, wide = Poisson(1000, 20, 40), Poisson(1000, 19, 30)
    found = worst({"narrow": event(narrow, narrow), "wide": event(wide, wide)}, PLD)
    assert set(found) == {"narrow", "wide"}
