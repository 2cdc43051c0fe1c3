"""Every attack is tried both ways: with its guards it gains nothing, without any one it succeeds.

The second half is what makes the first mean something: an attack that is "refused" for a typo of its own does not
succeed without its guard either.
"""

import importlib

import pytest

from parley.attacks import registry
from parley.attacks.kinds import Attack

NAMED_ONLY = {"M1"}
"""What cannot be stopped."""


def _of(surface: str) -> tuple[Attack, ...]:
    return tuple(importlib.import_module(f"parley.attacks.{surface}").ATTACKS)


def guarded(surface: str) -> pytest.MarkDecorator:
    """For each attack of a surface."""
    return pytest.mark.parametrize("attack", _of(surface), ids=lambda attack: attack.id)


def unguarded(surface: str) -> pytest.MarkDecorator:
    """For each attack of a surface and each guard against it."""
    pairs = [pytest.param(each, guard, id=f"{each.id}-{guard}") for each in _of(surface) for guard in each.guards]
    return pytest.mark.parametrize(("attack", "guard"), pairs)


def gains_nothing(attack: Attack) -> None:
    tried = registry.attempt(attack)
    assert tried.finding is not None, tried.broke
    assert tried.outcome in (("named",) if attack.id in NAMED_ONLY else ("refused", "bounded")), tried.finding


def succeeds(attack: Attack, guard: str) -> None:
    tried = registry.attempt(attack, [guard])
    assert tried.finding is not None, tried.broke
    assert tried.outcome == "succeeds", tried.finding
