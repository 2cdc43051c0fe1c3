"""One record's weight in an answer. Both ways: tests.support.attacks."""

import pytest

from parley.attacks.kinds import Attack
from tests.support.attacks import gains_nothing, guarded, succeeds, unguarded


@guarded("contribution")
@pytest.mark.slow
def test_with_its_guards_an_attack_gains_nothing_beyond_what_is_allowed(attack: Attack) -> None:
    gains_nothing(attack)


@pytest.mark.slow
@unguarded("contribution")
def test_without_any_one_of_its_guards_it_succeeds(attack: Attack, guard: str) -> None:
    succeeds(attack, guard)
