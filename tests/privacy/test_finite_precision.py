"""The sampler's certificate, and what it adds to a claim."""

import math

import pytest

from parley.privacy.claim import Claim
from parley.privacy.errors import InvalidParameterError
from parley.privacy.filters import Policy, charge_of
from parley.privacy.finite_precision import FinitePrecision
from parley.privacy.mechanism import Mechanism
from tests.support.claims import DELTA, PLD


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        (FinitePrecision(2100, 0.01, 0.0, 0.0), "of epsilon|to epsilon"),
        (FinitePrecision(2100, 0.0, 2e-7, 0.0), "of delta"),
        (FinitePrecision(2100, 0.0, 0.0, 2e-7), "of delta"),
        (FinitePrecision(2099, 0.0, 0.0, 0.0), "covers 2099 samples"),
    ],
)
def test_a_sampler_that_takes_more_than_one_percent_or_covers_too_little_is_refused(
    mechanism: Mechanism, precision: FinitePrecision, message: str
) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Claim.of(mechanism, 100, DELTA, PLD, precision)
    if precision.epsilon_added == 0:  # of the run's epsilon the share is asked for where the run's claim is made
        with pytest.raises(InvalidParameterError, match=message):
            charge_of(mechanism, "south", 100, DELTA, PLD, precision, Policy("rdp", 16))


@pytest.mark.parametrize(("hop", "tail"), [(1e-9, 1e-10), (0.0, 1e-9), (1e-9, 0.0)])
def test_terms_read_off_a_certificate_bound_the_true_ones_at_every_epsilon(hop: float, tail: float) -> None:
    truth = FinitePrecision(1000, 1e-4, hop, tail)
    stated = truth.delta_total(0.7, DELTA) - DELTA
    read = FinitePrecision.from_certificate(1000, 0.7, DELTA, truth.epsilon_added, stated)
    assert read.xi == truth.xi
    for epsilon in (0.0, 0.2, 0.7, 3.0, 10.0):
        assert read.delta_total(epsilon, DELTA) >= truth.delta_total(epsilon, DELTA) * (1 - 1e-12)
    assert read.delta_total(0.7, DELTA) - DELTA <= 2 * stated


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_a_certificate_with_nonsense_in_it_is_refused(value: float) -> None:
    with pytest.raises(InvalidParameterError, match="xi"):
        FinitePrecision(1, value, 0.0, 0.0)
    with pytest.raises(InvalidParameterError, match="hop delta"):
        FinitePrecision(1, 0.0, value, 0.0)
    with pytest.raises(InvalidParameterError, match="tail delta"):
        FinitePrecision(1, 0.0, 0.0, value)
