"""Frames between two servers: cut, joined, invented, echoed, late."""

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
    PeerTimeoutError,
)  # fmt: skip
from parley.mpc.randomness import Csprng
from parley.mpc.session import Session
from parley.mpc.tables import load
from tests.support.tampering import DEADLINE, attack, ended
from tests.support.two import outcomes


@pytest.mark.parametrize("step", [0, 1, 3, 13, 20, 21])
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
    assert time.monotonic() - started >= 0.2


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
    channel = Channel(a, deadline_seconds=3600)
    threading.Timer(0.1, b.close).start()
    with pytest.raises(PeerClosedError):
        channel.exchange([np.zeros(1, np.uint8)])
