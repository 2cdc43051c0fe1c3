"""What a run would cost, before anybody is asked: figures, a sentence, and what each adversary could learn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.study.study import Study


@dataclass(frozen=True)
class Adversary:
    """Somebody who wants to know one record, and what bounds what they can learn of it."""

    who: str
    epsilon: float | None
    """None: nothing is guaranteed against them."""
    learns: str
    """In words."""


@dataclass(frozen=True)
class Plan:
    """A run's figures, computed as every node computes them from the manifest."""

    epsilon: float
    epsilon_if_a_server_lies: float | None
    delta: float
    rounds: int
    batch: int
    noise_multiplier: float
    own: float
    statement: str
    adversaries: tuple[Adversary, ...]

    def as_json(self) -> dict[str, Any]:
        """The fields of `parley study plan --json`."""
        raise NotImplementedError


def plan_of(study: "Study", records: int | Mapping[str, int] | None) -> Plan:
    """`Study.plan`."""
    raise NotImplementedError
