"""The benchmarks' own link."""

import socket
import struct
import threading
import time
from typing import Any

import pytest

from parley.bench.socket_link import SocketLink
from parley.mpc.errors import FrameError, PeerClosedError, PeerTimeoutError
from tests.support.both_links import links
from tests.support.until import GIVE_UP_SECONDS


def raw_pair() -> tuple[socket.socket, SocketLink]:
    ours, theirs = socket.socketpair()
    return ours, SocketLink(theirs)


@pytest.mark.parametrize("announced", [1 << 30, 2**32 - 1, 0])
def test_a_socket_frame_of_a_hostile_length_is_refused_before_any_memory_is_taken(announced: int) -> None:
    ours, link = raw_pair()
    with ours:
        ours.sendall(struct.pack("<I", announced) + b"x")
        with pytest.raises(FrameError):
            link.receive(time.monotonic() + GIVE_UP_SECONDS)
        link.close()


def test_a_socket_frame_that_arrives_byte_by_byte_is_read_or_times_out() -> None:
    ours, link = raw_pair()
    with ours:

        def drip() -> None:
            for byte in struct.pack("<I", 3) + b"abc":
                ours.sendall(bytes([byte]))

        sender = threading.Thread(target=drip)
        sender.start()
        assert link.receive(time.monotonic() + GIVE_UP_SECONDS) == b"abc"
        sender.join()
        ours.sendall(struct.pack("<I", 3) + b"ab")
        with pytest.raises(PeerTimeoutError):
            link.receive(time.monotonic() + 0.2)
        link.close()


def test_closing_from_another_thread_wakes_a_waiting_socket_at_once(identities: Any) -> None:
    with links("socket", identities) as (a, _):
        threading.Timer(0.2, a.close).start()
        with pytest.raises(PeerClosedError):  # not by its time
            a.receive(time.monotonic() + 3600)
