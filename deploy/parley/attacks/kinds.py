"""What an attack is, what a guard is, and how a guard is taken away.

A guard is named by where it stands in the product, `module:qualified.name`, together with what stands there instead
when it is gone; the product has no switch for it. An attack whose victims are processes of their own starts them by
`python -m parley.attacks.unguarded GUARD MODULE ARGUMENT…`, which takes the guard away there.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from parley.errors import ParleyError

Outcome = Literal["refused", "bounded", "named", "succeeds"]


class AttackError(ParleyError):
    """No attack or guard has this name, or two have one, or an attack is not what it says."""


def needed(true: object, what: str) -> None:
    """What an attack rests on. Not by `assert`: python -O leaves out even what it calls, and all would look well."""
    if not true:
        raise AttackError(f"this attack shows nothing: {what}")


@dataclass(frozen=True)
class Finding:
    """How one attempt went."""

    outcome: Outcome
    """`refused`: nothing was learned or changed. `bounded`: it went through and gained no more than `bound`. `named`:
    it cannot be stopped, and whoever has to know is told by whom. `succeeds`: the claim is broken.
    """
    bound: float | str
    """What the claim allows, in the unit of `measured`."""
    measured: float | str
    """What the attacker got."""


@dataclass(frozen=True)
class Guard:
    """A check of the product that can be taken away for an experiment."""

    name: str
    """As `--without` takes it, such as `reach-covers-schema`."""
    target: str
    """`module:qualified.name` of a function, a method or a constant."""
    without: Any
    """What stands there when the guard is gone: a function for a function, a value for a constant."""


@contextmanager
def removed(*guards: Guard) -> Iterator[None]:
    """Without these guards, in this process."""
    kept: list[tuple[Any, str, Any]] = []
    try:
        for guard in guards:
            module, _, qualified = guard.target.partition(":")
            *holders, name = qualified.split(".")
            place: Any = importlib.import_module(module)
            for holder in holders:
                place = getattr(place, holder)
            kept.append((place, name, place.__dict__[name]))  # as it is stored: a static method stays one
            setattr(place, name, guard.without)
        yield
    finally:
        for place, name, found in reversed(kept):
            setattr(place, name, found)


@dataclass(frozen=True)
class Attack:
    """One thing that somebody may try."""

    id: str
    """As the reviews name it, such as `C3a`; a new one has a word."""
    what: str
    """One plain sentence: who does what, to learn or change what."""
    guards: tuple[str, ...]
    """Names of the guards; without any one of them alone `attempt` must succeed."""
    attempt: Callable[[Path, tuple[Guard, ...]], Finding]
    """Tries it on the real code, in an empty folder. The guards that are taken away in this process are given too, for
    the processes that it starts.
    """
