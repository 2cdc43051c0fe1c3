"""Faults and hostile frames at every step of a session: a typed error in time, nothing opened, nothing used again.

A session with one small batch has 22 exchanges; `STEPS` names them. Each is attacked in turn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parley.mpc.channel import FRAME_OVERHEAD, HEADER, Channel, MemoryLink
from parley.mpc.errors import (
    FrameError,
    PeerClosedError,
    SessionClosedError,
    TablesDifferError,
)  # fmt: skip
from parley.mpc.session import Session
from parley.mpc.tables import Tables, load
from tests.support.tampering import DEADLINE, STEPS, Tampering, attack, ended
from tests.support.two import outcomes


def flip(position: int) -> Callable[[bytes], bytes]:
    def change(frame: bytes) -> bytes:
        out = bytearray(frame)
        out[position % len(out)] ^= 1 << position % 8
        return bytes(out)

    return change


def test_the_list_of_steps_is_complete() -> None:
    a, b, link = attack(999, lambda frame: frame)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    assert link.sent == len(STEPS)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_one_flipped_bit_in_any_message_ends_the_session(step: int) -> None:
    for position in (FRAME_OVERHEAD, -1, FRAME_OVERHEAD + 7 * step + 3):
        a, b, _ = attack(step, flip(position))
        assert isinstance(a, FrameError), (position, a)
        assert ended(b, step)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
@pytest.mark.parametrize("place", ["session", "batch", "step", "length", "tag"])
def test_a_wrong_label_ends_the_session(step: int, place: str) -> None:
    position = {"session": 3, "batch": 16, "step": 20, "length": 24, "tag": HEADER.size + 2}[place]
    a, b, _ = attack(step, flip(position))
    assert isinstance(a, FrameError)
    assert ended(b, step)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_a_peer_that_dies_is_noticed_at_once(step: int) -> None:
    """By the closed connection: who only waits for its time meets PeerTimeoutError."""
    a, _, _ = attack(step, lambda frame: None)
    assert isinstance(a, PeerClosedError)


@pytest.mark.parametrize("step", [3, 6, 13, 20])
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

    results = outcomes(end, (a, Tampering(b, max(step, 3), flip(-1))), DEADLINE)
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
