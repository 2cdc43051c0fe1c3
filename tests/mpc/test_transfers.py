"""Transfers as gates use them."""

import pytest

from parley.mpc.errors import ConfigurationError, SessionClosedError
from parley.mpc.transfers import MOST_TRANSFERS, check_budget
from tests.support.extension import extended, source
from tests.support.two import run_steps


def test_a_part_has_the_pads_of_the_whole() -> None:
    whole, _ = (parts[0] for parts in run_steps(lambda role: extended(role, 4, [3000])))
    part = whole.part(700, 900)
    assert (part.receiver_words(3) == whole.receiver_words(3)[700:900]).all()
    assert (part.sender_pads(1)[1] == whole.sender_pads(1)[1][700:900]).all()


def test_too_many_transfers_end_the_session() -> None:
    check_budget(MOST_TRANSFERS - 10, 10)
    with pytest.raises(SessionClosedError, match="new session"):
        check_budget(MOST_TRANSFERS - 10, 11)


def test_an_unknown_k_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="use 1, 2 or 4"):
        run_steps(lambda role: source(role, 3))
