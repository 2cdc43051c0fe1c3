"""A line between two servers on which somebody tampers."""

from collections.abc import Callable
from typing import Any

from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.errors import (
    PeerClosedError,
    PeerError,
    PeerTimeoutError,
)  # fmt: skip
from parley.mpc.session import Session
from parley.mpc.tables import load
from tests.support.two import outcomes

STEPS = [
    "hello", "base points", "trees", "corrections", "challenges", "answers", "pairs one-hot",
    "one-hot 2", "one-hot 3", "one-hot 4", "one-hot 5", "head multiplexer", "tail flag", "to ring", "rises",
    "products and flips", "sign and digits", "comparison 1", "comparison 2", "comparison 3", "sealed accept bits",
    "accept bits",
]  # fmt: skip
DEADLINE = 120.0
"""That nobody comes to: whoever meets an error closes its end, and the other one notices that."""


class Tampering:
    """A link that does something to the n-th frame that its end sends."""

    def __init__(self, link: MemoryLink, frame: int, change: Callable[[bytes], bytes | None]) -> None:
        self._link, self._frame, self._change, self.sent = link, frame, change, 0

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        number, self.sent = self.sent, self.sent + 1
        if number == self._frame:
            changed = self._change(bytes(frame))
            if changed is None:
                self.close()
                raise PeerClosedError("died")
            self._link.send(changed)
        else:
            self._link.send(frame)

    def receive(self, deadline: float) -> Any:
        return self._link.receive(deadline)

    def close(self) -> None:
        self._link.close()


def attack(frame: int, change: Callable[[bytes], bytes | None]) -> tuple[Any, Any, Tampering]:
    """Outcome of server 0 and of server 1, whose link tampers with its own n-th frame."""
    tables = load("strips", "standard")
    a, b = MemoryLink.pair()
    bad = Tampering(b, frame, change)

    def end(role: int, channel: Channel) -> Any:
        return Session(channel, role, tables).samples(16)

    results = outcomes(end, (a, bad), DEADLINE)
    return results[0], results[1], bad


def ended(outcome: Any, step: int) -> bool:
    """Whether the other side noticed, and not by its clock: it must, but for the last frame, after which it has all it
    needs for this batch. (Its pool then finds the session gone, and agreement on a sum's noise fails: test_pool.py.)"""
    noticed = isinstance(outcome, PeerError) and not isinstance(outcome, PeerTimeoutError)
    return noticed or step == len(STEPS) - 1
