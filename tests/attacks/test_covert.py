"""Lies in noise under audit, over two processes, gRPC and TLS. Both ways: tests.support.attacks."""

from collections.abc import Iterator

import pytest

from parley.attacks import covert
from parley.attacks.kinds import Attack
from tests.support.attacks import gains_nothing, guarded, succeeds, unguarded


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    covert.end()


@guarded("covert")
def test_with_its_guards_an_attack_gains_nothing_beyond_what_is_allowed(attack: Attack) -> None:
    gains_nothing(attack)


@pytest.mark.slow
@unguarded("covert")
def test_without_any_one_of_its_guards_it_succeeds(attack: Attack, guard: str) -> None:
    succeeds(attack, guard)
