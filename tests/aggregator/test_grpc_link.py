"""Channels over real transports: TLS sockets and gRPC streams on loopback, with ports from the kernel."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator import grpc_link
from parley.aggregator.grpc_link import GrpcLink, Room, dial
from parley.mpc.channel import Channel
from parley.mpc.errors import PeerClosedError, PeerError, PeerTimeoutError
from parley.mpc.session import Session
from parley.mpc.tables import load
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.v1 import noise_pb2
from tests.support.both_links import dialling, links, serving
from tests.support.two import run_both
from tests.support.until import GIVE_UP_SECONDS, until

KINDS = pytest.mark.parametrize("kind", ["socket", "grpc"])


@KINDS
def test_a_session_runs_over_the_wire(kind: str, identities: Any) -> None:
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> Any:
        session = Session(channel, role, tables)
        return np.concatenate([session.samples(600), session.samples(600)])

    with links(kind, identities) as pair:
        a, b = run_both(end, pair)
    x = (a + b).view(np.int64) / 2.0**tables.format.scale_bits
    assert len(x) > 1150
    assert np.abs(x).max() < 9
    assert 0.85 < x.std() < 1.15  # 1,190 samples: 7 deviations


@KINDS
def test_large_frames_cross_both_ways_at_once(kind: str, identities: Any) -> None:
    size = 9 << 20  # more than gRPC's limit for a message, and than any socket buffer

    def end(role: int, channel: Channel) -> int:
        (answer,) = channel.exchange([np.full(size, role + 1, np.uint8)])
        return int(answer.sum())

    with links(kind, identities) as pair:
        assert run_both(end, pair) == [2 * size, size]


@KINDS
def test_a_closed_end_is_noticed_at_once(kind: str, identities: Any) -> None:
    with links(kind, identities) as (a, b):
        threading.Timer(0.2, b.close).start()
        with pytest.raises(PeerClosedError):  # not by its time
            a.receive(time.monotonic() + 3600)
        with pytest.raises(PeerError):
            for _ in range(50):
                a.send(bytes(1 << 20))
                time.sleep(0.01)


@KINDS
def test_a_silent_end_is_a_time_out(kind: str, identities: Any) -> None:
    with links(kind, identities) as (a, _):
        started = time.monotonic()
        with pytest.raises(PeerTimeoutError):
            a.receive(started + 0.3)
        assert time.monotonic() - started >= 0.3


@KINDS
def test_closing_twice_is_fine(kind: str, identities: Any) -> None:
    with links(kind, identities) as (a, b):
        a.close()
        a.close()
        b.close()


def test_a_server_lets_in_nobody_from_another_authority(identities: Any) -> None:
    _, _, b = identities
    stranger = ThrowAwayAuthority().issue("a")
    mixed = Identity(stranger.key, stranger.certificate, b.authority)
    with serving(b) as (address, accepted):
        with dialling(address, mixed) as channel, pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(timeout=1)
        assert accepted.empty()


def test_a_node_of_the_same_federation_that_is_not_server_a_is_refused(identities: Any) -> None:
    """B's own certificate, from the right authority, is not A's."""
    _, _, b = identities
    with serving(b) as (address, accepted):
        with dialling(address, b) as channel:
            link = dial(channel)
            with pytest.raises(PeerClosedError, match="not the other aggregation server"):
                link.receive(time.monotonic() + GIVE_UP_SECONDS)
        assert accepted.empty()


def test_what_was_sent_arrives_although_the_dialler_closes_at_once(identities: Any) -> None:
    for _ in range(5):
        with links("grpc", identities) as (a, b):
            a.send(bytes(3 << 20))
            a.close()
            assert len(b.receive(time.monotonic() + GIVE_UP_SECONDS)) == 3 << 20


# ------------------------------------------------------------ a peer that sends more than is asked for


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    """Of this test's links alone: four megabytes."""
    made = Room()
    monkeypatch.setattr(grpc_link, "ROOM", made)
    monkeypatch.setattr(grpc_link, "MOST_HELD_BYTES", 4 << 20)
    return made


class Parked:
    """A link at the end of a stream of frames that nobody takes."""

    def __init__(self, size: int, frames: int = 3, piece: int = 1 << 16) -> None:
        self.read = 0
        self._sizes = [piece] * (size // piece)
        self.link = GrpcLink(noise_pb2.ConverseResponse, self._pieces(frames), lambda: None)

    def _pieces(self, frames: int) -> Iterator[Any]:
        for _ in range(frames):
            for place, size in enumerate(self._sizes):
                self.read += size
                yield noise_pb2.ConverseRequest(data=bytes(size), last=place == len(self._sizes) - 1)


def test_streams_that_nobody_reads_take_no_more_memory_together_than_they_may(room: Room) -> None:
    """Sixty-four of them would have taken fourteen gigabytes."""
    first = Parked(1 << 20)
    until(lambda: first.read == 3 << 20)  # two frames that wait, and one that waits for its place
    late = [Parked(1 << 20) for _ in range(8)]
    until(lambda: [each.link.over for each in late] == [True] * 8)
    assert not first.link.over
    assert room.held == 3 << 20, "what the others had was given back at once"
    with pytest.raises(PeerError, match="waiting to be read"):
        late[-1].link.receive(time.monotonic() + GIVE_UP_SECONDS)
    first.link.close()
    until(lambda: room.held == 0)


def test_a_link_that_was_closed_takes_no_memory_whatever_is_sent_over_it(room: Room, identities: Any) -> None:
    with links("grpc", identities) as (a, b):
        for _ in range(3):
            a.send(bytes(1 << 20))
        until(lambda: room.held >= 2 << 20)
        b.close()
        with contextlib.suppress(PeerClosedError):
            a.send(bytes(1 << 20))
        until(lambda: room.held == 0)


def test_what_is_read_and_taken_makes_room_for_more(room: Room) -> None:
    link = Parked(1 << 20, frames=20).link
    for _ in range(20):
        assert len(link.receive(time.monotonic() + GIVE_UP_SECONDS)) == 1 << 20
        assert room.held <= 4 << 20


def test_a_frame_in_tiny_pieces_takes_what_it_is_long(room: Room) -> None:
    link = Parked(1 << 18, frames=1, piece=2).link
    assert bytes(link.receive(time.monotonic() + GIVE_UP_SECONDS)) == bytes(1 << 18)
    assert room.held == 1 << 18
