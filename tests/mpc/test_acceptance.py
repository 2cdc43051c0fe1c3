"""How many lanes may be accepted, and accept shares that are sealed before they are opened."""

import math
from fractions import Fraction
from typing import Any

import pytest

from parley.attacks.lying_server import sampled
from parley.attacks.servers import Peek, Squeeze
from parley.mpc.acceptance import DEVIATIONS, TAIL, accepted_range, binomial_range, check_accepted
from parley.mpc.errors import AcceptedCountError, SealBrokenError
from parley.mpc.law import acceptance
from parley.mpc.tables import load


def tail(probability: Fraction, lanes: int, counts: range) -> float:
    """Exactly."""
    return float(sum(math.comb(lanes, k) * probability**k * (1 - probability) ** (lanes - k) for k in counts))


@pytest.mark.parametrize("lanes", [16, 48, 512])
@pytest.mark.parametrize("cover", ["strips", "rectangle"])
def test_honest_servers_are_refused_with_a_negligible_probability(cover: Any, lanes: int) -> None:
    """By exact rational sums: below 2^-49 a batch."""
    tables = load(cover, "standard")
    lowest, highest = accepted_range(tables, lanes)
    p = acceptance(tables).limit_denominator(1 << 40)
    outside = tail(p, lanes, range(lowest)) + tail(p, lanes, range(highest + 1, lanes + 1))
    assert outside < 2 * TAIL
    deviations = float((lanes * p - lowest) / (lanes * p * (1 - p)) ** 0.5)
    assert deviations <= DEVIATIONS or tail(p, lanes, range(lowest + 1)) >= 0.9 * TAIL  # and by no more than that


def test_the_range_of_a_full_batch_is_ten_deviations() -> None:
    tables, lanes = load("strips", "standard"), 8192
    p = float(acceptance(tables))
    deviation = math.sqrt(lanes * p * (1 - p))
    lowest, _ = accepted_range(tables, lanes)
    assert DEVIATIONS * deviation <= lanes * p - lowest + 1 < DEVIATIONS * deviation + 2
    assert (lowest, lanes) == (8084, accepted_range(tables, lanes)[1])


def test_a_count_outside_is_refused_and_the_bounds_themselves_are_not() -> None:
    tables = load("rectangle", "standard")
    lowest, highest = accepted_range(tables, 4096)
    check_accepted(tables, 4096, lowest)
    check_accepted(tables, 4096, highest)
    for count in (lowest - 1, highest + 1, 0, 4096):
        with pytest.raises(AcceptedCountError, match="did not follow"):
            check_accepted(tables, 4096, count)
    assert binomial_range(0.5, 4) == (0, 4)


@pytest.mark.parametrize("role", [0, 1])
def test_a_squeezed_batch_ends_the_session_on_both_servers(role: int) -> None:
    found = sampled({role: Squeeze}, 1, 2048)
    assert [type(error) for error in found.errors] == [AcceptedCountError] * 2
    assert found.shares == [[], []]


def test_forced_accept_bits_end_the_session() -> None:
    found = sampled({1: Peek}, 1, 2048, rushing={1})
    assert type(found.errors[0]) is SealBrokenError
    assert found.shares[0] == []
