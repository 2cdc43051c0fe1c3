"""What is released, as accountants count it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.privacy.accountants import ACCOUNTANTS, accountant
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.sampling import FixedSize
from tests.support.events import DELTA, PLD, wor


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.6, 3), st.floats(0.6, 3))
@settings(max_examples=10, deadline=None)
def test_composition_commutes_and_associates(first: int, second: int, noise: float, other: float) -> None:
    one = SampledGaussian(FixedSize(500, 20), noise, first)
    two = SampledGaussian(FixedSize(500, 70), other, second)
    split = SampledGaussian(one.sampler, noise, 1)
    forward = PLD.epsilon(Event((one, two)), DELTA).epsilon
    assert PLD.epsilon(Event((two, one)), DELTA).epsilon == pytest.approx(forward, rel=1e-9)
    more = SampledGaussian(one.sampler, noise, first + 1)
    assert PLD.epsilon(Event((one, two, split)), DELTA).epsilon == pytest.approx(
        PLD.epsilon(Event((more, two)), DELTA).epsilon, rel=1e-6
    )


def test_an_event_without_releases_costs_nothing() -> None:
    empty = wor(100, 10, 5).first(0)
    assert [accountant(name).epsilon(empty, DELTA).epsilon for name in ACCOUNTANTS] == [0, 0, 0, 0]
