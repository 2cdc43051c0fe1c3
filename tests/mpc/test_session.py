"""Faults and hostile frames at every step of a session: a typed error in time, nothing opened, nothing used again.

A session with one small batch has 23 exchanges; `STEPS` names them. Each is attacked in turn.
"""

import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parley.mpc.channel import FRAME_OVERHEAD, HEADER, Channel, MemoryLink
from parley.mpc.errors import (
    FrameError,
    PeerClosedError,
    PeerError,
    PeerTimeoutError,
    SessionClosedError,
    TablesDifferError,
)  # fmt: skip
from parley.mpc.randomness import Csprng
from parley.mpc.session import Session
from parley.mpc.tables import Tables, load
from tests.support.two import outcomes

STEPS = [
    "hello", "base point", "base points", "trees", "corrections", "challenges", "answers", "pairs one-hot",
    "one-hot 2", "one-hot 3", "one-hot 4", "one-hot 5", "head multiplexer", "tail flag", "to ring", "rises",
    "products and flips", "sign and digits", "comparison 1", "comparison 2", "comparison 3", "sealed accept bits",
    "accept bits",
]  # fmt: skip
DEADLINE = 2.0


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


def flip(position: int) -> Callable[[bytes], bytes]:
    def change(frame: bytes) -> bytes:
        out = bytearray(frame)
        out[position % len(out)] ^= 1 << position % 8
        return bytes(out)

    return change


def ended(outcome: Any, step: int) -> bool:
    """Whether the other side noticed: it must, but for the last frame, after which it has all it needs for this
    batch. (Its
    pool then finds the session gone, and agreement on a sum's noise fails: test_pool.py.)"""
    return isinstance(outcome, PeerError) or step == len(STEPS) - 1


def test_the_list_of_steps_is_complete() -> None:
    a, b, link = attack(999, lambda frame: frame)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    assert link.sent == len(STEPS)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_one_flipped_bit_in_any_message_ends_the_session(step: int) -> None:
    for position in (FRAME_OVERHEAD, -1, FRAME_OVERHEAD + 7 * step + 3):
        started = time.monotonic()
        a, b, _ = attack(step, flip(position))
        assert isinstance(a, FrameError), (position, a)
        assert ended(b, step)
        assert time.monotonic() - started < 2 * DEADLINE + 2


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
@pytest.mark.parametrize("place", ["session", "batch", "step", "length", "tag"])
def test_a_wrong_label_ends_the_session(step: int, place: str) -> None:
    position = {"session": 3, "batch": 16, "step": 20, "length": 24, "tag": HEADER.size + 2}[place]
    a, b, _ = attack(step, flip(position))
    assert isinstance(a, FrameError)
    assert ended(b, step)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_a_peer_that_dies_is_noticed_at_once(step: int) -> None:
    started = time.monotonic()
    a, _, _ = attack(step, lambda frame: None)
    assert isinstance(a, PeerClosedError)
    assert time.monotonic() - started < DEADLINE


@pytest.mark.parametrize("step", [0, 2, 4, 14, 21, 22])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda frame: frame[:-1], FrameError),
        (lambda frame: frame[: FRAME_OVERHEAD - 1], FrameError),
        (lambda frame: b"", FrameError),
        (lambda frame: frame + b"\0", FrameError),
        (lambda frame: frame + bytes(1 << 20), FrameError),
        (lambda frame: bytes(len(frame)), FrameError),
        (lambda frame: frame[: HEADER.size - 4] + struct.pack("<I", 2**32 - 1) + frame[HEADER.size :], FrameError),
    ],
    ids=["short by one", "headless", "empty", "long by one", "long by a megabyte", "zeros", "length of 4 GiB"],
)
def test_cut_joined_and_invented_frames_end_the_session(
    step: int, change: Callable[[bytes], bytes], error: type[Exception]
) -> None:
    a, b, _ = attack(step, change)
    assert isinstance(a, error)
    assert ended(b, step)


def test_a_silent_peer_is_a_time_out() -> None:
    link, _ = MemoryLink.pair()
    channel = Channel(link, deadline_seconds=0.2)
    started = time.monotonic()
    with pytest.raises(PeerTimeoutError):
        channel.exchange([np.zeros(1, np.uint8)])
    assert 0.1 < time.monotonic() - started < 2


def test_a_frame_echoed_back_is_refused() -> None:
    """Labels are the same in both directions; who sent a frame is part of its tag."""
    sent: list[bytes] = []

    class Echo:
        def send(self, frame: bytes | bytearray | memoryview) -> None:
            sent.append(bytes(frame))

        def receive(self, deadline: float) -> bytes:
            return sent[-1]

        def close(self) -> None:
            pass

    channel = Channel(Echo())
    channel.open_session(bytes(16), 0)
    with pytest.raises(FrameError, match="altered"):
        channel.exchange([np.ones(5, np.uint8)])


@pytest.mark.parametrize("step", [3, 6, 13, 21])
def test_nothing_is_used_again_after_an_error(step: int) -> None:
    """The session refuses every further call, whatever went wrong first."""
    tables = load("strips", "standard")
    a, b = MemoryLink.pair()
    sessions: list[Session] = []

    def end(role: int, channel: Channel) -> Any:
        session = Session(channel, role, tables)
        if role == 0:
            sessions.append(session)
        return session.samples(16)

    results = outcomes(end, (a, Tampering(b, max(step, 4), flip(-1))), DEADLINE)
    assert isinstance(results[0], FrameError)
    for _ in range(2):
        with pytest.raises(SessionClosedError, match="altered"):
            sessions[0].samples(16)


def other_tables() -> Tables:
    good = load("strips", "standard")
    tail = good.tail.copy()
    tail[0, 0, 0] ^= 1
    return Tables(good.cover, good.precision, good.format, good.head, tail)


@pytest.mark.parametrize("other", [other_tables, lambda: load("strips", "high"), lambda: load("rectangle", "standard")])
def test_different_tables_are_noticed_before_anything_is_computed(other: Callable[[], Tables]) -> None:
    tables = [load("strips", "standard"), other()]
    frames: list[int] = []

    def end(role: int, channel: Channel) -> Any:
        try:
            return Session(channel, role, tables[role])
        finally:
            frames.append(channel.traffic.exchanges)

    results = outcomes(end, deadline_seconds=DEADLINE)
    assert all(isinstance(result, TablesDifferError) for result in results)
    assert frames == [1, 1]


def test_two_servers_of_one_role_refuse_each_other() -> None:
    tables = load("strips", "standard")
    results = outcomes(lambda role, channel: Session(channel, 0, tables), deadline_seconds=DEADLINE)
    assert all(isinstance(result, FrameError) for result in results)


def test_another_protocol_on_the_line_is_refused() -> None:
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> Any:
        if role == 0:
            return Session(channel, role, tables)
        return channel.exchange([Csprng(bytes(32)).octets(81)])

    results = outcomes(end, deadline_seconds=DEADLINE)
    assert isinstance(results[0], FrameError)


def test_closing_wakes_a_waiting_server() -> None:
    a, b = MemoryLink.pair()
    channel = Channel(a, deadline_seconds=30)
    threading.Timer(0.1, b.close).start()
    started = time.monotonic()
    with pytest.raises(PeerClosedError):
        channel.exchange([np.zeros(1, np.uint8)])
    assert time.monotonic() - started < 5
