"""Every attack and every guard that `parley audit attacks` knows, and how one of them is tried.

A surface is a module of this folder with `ATTACKS` and `GUARDS`; one line here registers it. Imported when asked for,
since some surfaces need what only an extra installs.
"""

import importlib
import tempfile
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from parley.attacks.kinds import Attack, AttackError, Finding, Guard, removed

SURFACES: tuple[str, ...] = (
    "records", "contribution", "budgets", "data_sets", "keys", "servers", "noise", "covert", "floods",
)  # fmt: skip


@dataclass(frozen=True)
class Tried:
    """One attack, tried once."""

    attack: Attack
    finding: Finding | None
    """None where the attack itself broke, which says nothing about the product."""
    broke: str
    """By what."""
    seconds: float

    @property
    def outcome(self) -> str:
        return self.finding.outcome if self.finding else "error"


def _of(surface: str) -> tuple[tuple[Attack, ...], tuple[Guard, ...]]:
    module = importlib.import_module(f"parley.attacks.{surface}")
    return module.ATTACKS, module.GUARDS


@cache
def attacks() -> tuple[Attack, ...]:
    """In the order of the surfaces."""
    return tuple(attack for surface in SURFACES for attack in _of(surface)[0])


@cache
def guards() -> dict[str, Guard]:
    """By name."""
    found: dict[str, Guard] = {}
    for surface in SURFACES:
        for guard in _of(surface)[1]:
            if guard.name in found:
                raise AttackError(f"two guards are called {guard.name}: rename the one in deploy/attacks/{surface}.py")
            found[guard.name] = guard
    return found


def chosen(only: Sequence[str], without: str | None) -> tuple[Attack, ...]:
    """The attacks of these ids, or all; with a guard, those that it protects against."""
    known = {attack.id for attack in attacks()}
    if unknown := sorted(set(only) - known):
        raise AttackError(f"no attack is called {', '.join(unknown)}: see parley audit attacks --list")
    if without is not None and without not in guards():
        raise AttackError(f"no guard is called {without}: see parley audit attacks --list")
    return tuple(
        attack
        for attack in attacks()
        if (not only or attack.id in only) and (without is None or without in attack.guards)
    )


def attempt(attack: Attack, without: Sequence[str] = ()) -> Tried:
    """In an empty folder, this process's while it lasts. Nothing that goes wrong in the attack is a refusal."""
    gone = tuple(guards()[name] for name in without)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True) as folder, chdir(folder):
        try:
            with removed(*gone):
                return Tried(attack, attack.attempt(Path(folder), gone), "", time.monotonic() - started)
        except Exception as error:
            # Whatever an attack makes of itself: reported as its own fault, by the type and the first words.
            return Tried(attack, None, f"{type(error).__name__}: {error}"[:300], time.monotonic() - started)
