"""Accountants: ε(δ) and δ(ε) of an `Event`, four ways behind one interface, all of them pure reads.

    pld     privacy-loss distributions, the default: docs/privacy-wor-profile.md
    rdp     Rényi divergence, with the `dp-accounting` library for sampling without replacement
    paper   Lemma 3.7 with Lemma 3.9 of Wang, Jayaraman, Evans and Gu, refusing where their conditions fail
    lower   what two actual data sets reach: not a guarantee, but no guarantee can be better

This module is light; the numerical ones are imported, and with them scipy or dp-accounting (107 MB), when asked for.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event
from parley.privacy.mechanism import Mechanism

SMALLEST_DELTA = 1e-100
ACCOUNTANTS = ("pld", "rdp", "paper", "lower")


@dataclass(frozen=True)
class Reading:
    """What an accountant says about an event."""

    epsilon: float
    delta: float
    accountant: str
    rdp_order: float | None = None


class Accountant(Protocol):
    """Anything that bounds ε at a δ. Reading never changes state."""

    @property
    def name(self) -> str:
        """As the command line has it."""
        ...

    @property
    def certifies(self) -> bool:
        """Whether its readings are guarantees; a lower bound's are not."""
        ...

    def epsilon(self, event: Event, delta: float) -> Reading:
        """The smallest ε that it can state at this δ; infinite where there is none."""
        ...

    def delta(self, event: Event, epsilon: float) -> float:
        """The smallest δ that it can state at this ε."""
        ...


def require_delta(delta: float) -> float:
    """`delta` as a number in range, or one line that says so."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not SMALLEST_DELTA <= delta < 1:
        raise InvalidParameterError(f"delta is {delta!r}: give a number between 0 (from 1e-100) and 1, such as 1e-5")
    return float(delta)


def require_epsilon(epsilon: float) -> float:
    """`epsilon` as a finite number of at least zero, or one line that says so."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < math.inf:
        raise InvalidParameterError(f"epsilon is {epsilon!r}: give a finite number of at least 0")
    return float(epsilon)


def conversion(order: float, delta: float) -> float:
    """What ε adds to an RDP figure at this order and δ (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    return math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def with_overflow(event: Event, delta: float, solve: Callable[[float], float]) -> float:
    """ε of the padded mechanism, `solve` giving ε(δ) of the one that never overflows.

    The two coincide but with the probability p of `Event.overflow_probability`, under either data set, so δ grows by
    (1 + e^ε)·p. Returned is an ε at which the sum of both stays within `delta`.
    """
    overflow = event.overflow_probability
    epsilon = 0.0
    for _ in range(50):
        room = delta - (1 + math.exp(min(epsilon, 700.0))) * overflow
        if room <= 0:
            return math.inf
        solved = solve(room)
        if solved <= epsilon or overflow == 0:
            return max(solved, epsilon)
        if solved == math.inf:
            return math.inf
        epsilon = solved * (1 + 2e-4) + 1e-12
    return math.inf


def accountant(name: str) -> Accountant:
    """The accountant of that name."""
    if name == "pld" or name == "lower":
        from parley.privacy.loss_accountant import LossAccountant

        return LossAccountant(name, 1 if name == "pld" else -1)
    if name == "rdp":
        from parley.privacy.rdp_accountant import RdpAccountant

        return RdpAccountant()
    if name == "paper":
        from parley.privacy.paper_accountant import PaperAccountant

        return PaperAccountant()
    raise InvalidParameterError(f"no accountant {name!r}: choose one of {', '.join(ACCOUNTANTS)}")


def worst_party(chosen: Accountant, mechanism: Mechanism, delta: float) -> tuple[str, Reading]:
    """The party whose units are protected least, which is what a run may claim."""
    readings = {event: chosen.epsilon(event, delta) for event in mechanism.events().values()}
    party, event = max(mechanism.events().items(), key=lambda item: readings[item[1]].epsilon)
    return party, readings[event]


def trajectory(chosen: Accountant, event: Event, delta: float, releases: Sequence[int]) -> list[Reading]:
    """ε after each of the given numbers of releases; the composed lattices are shared between them."""
    return [chosen.epsilon(event.first(count), delta) for count in releases]
