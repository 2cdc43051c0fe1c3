"""No two neighbouring data sets' answers lie further apart than is declared, and none fails: searched at random.

The seed is new each time and shown; PARLEY_SEED repeats one.
"""

import os
import secrets

import pytest

from parley.attacks.contribution import FAILING, FRAMES, RANGE, REACH
from parley.attacks.kinds import Guard, removed
from tests.attacks.neighbours import Search, search

TRIES, LONG = 20_000, 200_000
NEAR = 0.95
"""Of what is attainable, reached by every kind of question for every model: else nothing was tried near the bound."""


def seed() -> int:
    return int(os.environ.get("PARLEY_SEED") or secrets.randbits(32))


def shown(found: Search, capsys: pytest.CaptureFixture[str]) -> Search:
    with capsys.disabled():
        print(f"\n{found}")
    return found


def holds(tries: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(search(tries, seed()), capsys)
    assert not found.broken, str(found)
    assert found.tried >= tries
    missed = {target.name: reached for target, reached in found.reached.items() if reached < NEAR}
    assert not missed, f"{found}: {missed}"


@pytest.mark.slow
def test_no_neighbours_lie_further_apart_than_declared_and_no_answer_fails(capsys: pytest.CaptureFixture[str]) -> None:
    holds(TRIES, capsys)


@pytest.mark.long
def test_the_same_for_ten_times_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    holds(LONG, capsys)


@pytest.mark.parametrize("guard", [FRAMES, REACH, FAILING, RANGE], ids=lambda guard: guard.name)
def test_the_search_finds_what_each_guard_is_for(guard: Guard, capsys: pytest.CaptureFixture[str]) -> None:
    with removed(guard):
        found = shown(search(LONG, seed(), until_broken=True), capsys)  # a thousand tries, as a rule
    assert found.broken, str(found)
