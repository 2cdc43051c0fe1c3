"""Channels over real transports: TLS sockets and gRPC streams on loopback, with ports from the kernel."""

import contextlib
import queue
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator.grpc_link import GrpcLink, NoiseServicer, dial
from parley.bench.socket_link import SocketLink
from parley.mpc.channel import Channel, Link
from parley.mpc.errors import FrameError, PeerClosedError, PeerError, PeerTimeoutError
from parley.mpc.session import Session
from parley.mpc.tables import load
from parley.node.authority import ThrowAwayAuthority, identity_uri
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity
from parley.v1 import noise_pb2_grpc
from tests.mpc.two import run_both


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Identity, Identity]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = ThrowAwayAuthority()
    made = [authority.issue(name) for name in ("a", "b")]
    for name, identity in zip(("a", "b"), made, strict=True):
        identity.save(folder / name)
    return folder, made[0], made[1]


def tls(folder: Path, name: str, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(folder / name / "node.crt", folder / name / "node.key")
    context.load_verify_locations(folder / name / "authority.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.contextmanager
def socket_links(folder: Path) -> Iterator[tuple[Link, Link]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    ends: list[Any] = [None, None]

    def handshake(i: int, sock: socket.socket, server: bool) -> None:
        context = tls(folder, "b" if server else "a", server)
        extra = {"server_side": True} if server else {"server_hostname": "127.0.0.1"}
        ends[i] = SocketLink(context.wrap_socket(sock, **extra))

    threads = [threading.Thread(target=handshake, args=a) for a in ((0, dialled, False), (1, accepted, True))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        yield ends[0], ends[1]
    finally:
        ends[0].close()
        ends[1].close()


@contextlib.contextmanager
def serving(b: Identity) -> Iterator[tuple[str, "queue.SimpleQueue[GrpcLink]"]]:
    """Server B: its address, and the links it accepts from server A."""
    accepted: queue.SimpleQueue[GrpcLink] = queue.SimpleQueue()
    server = grpc.server(futures.ThreadPoolExecutor(2), options=KEEPALIVE)
    noise_pb2_grpc.add_NoiseServiceServicer_to_server(NoiseServicer(accepted.put, {identity_uri("a")}), server)
    credentials = grpc.ssl_server_credentials([(b.key, b.certificate)], b.authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield f"127.0.0.1:{port}", accepted
    finally:
        server.stop(None).wait(5)


def dialling(address: str, identity: Identity) -> grpc.Channel:
    credentials = grpc.ssl_channel_credentials(identity.authority, identity.key, identity.certificate)
    return grpc.secure_channel(address, credentials, options=KEEPALIVE)


@contextlib.contextmanager
def grpc_links(a: Identity, b: Identity) -> Iterator[tuple[Link, Link]]:
    with serving(b) as (address, accepted), dialling(address, a) as channel:
        link = dial(channel)
        try:
            yield link, accepted.get(timeout=10)
        finally:
            link.close()


@contextlib.contextmanager
def links(kind: str, identities: tuple[Path, Identity, Identity]) -> Iterator[tuple[Link, Link]]:
    folder, a, b = identities
    with socket_links(folder) if kind == "socket" else grpc_links(a, b) as pair:
        yield pair


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
        started = time.monotonic()
        with pytest.raises(PeerClosedError):
            a.receive(time.monotonic() + 20)
        assert time.monotonic() - started < 10
        with pytest.raises(PeerError):
            for _ in range(50):
                a.send(bytes(1 << 20))
                time.sleep(0.01)


@KINDS
def test_a_silent_end_is_a_time_out(kind: str, identities: Any) -> None:
    with links(kind, identities) as (a, _):
        started = time.monotonic()
        with pytest.raises(PeerTimeoutError):
            a.receive(time.monotonic() + 0.3)
        assert time.monotonic() - started < 3


@KINDS
def test_closing_twice_is_fine(kind: str, identities: Any) -> None:
    with links(kind, identities) as (a, b):
        a.close()
        a.close()
        b.close()


def raw_pair() -> tuple[socket.socket, SocketLink]:
    ours, theirs = socket.socketpair()
    return ours, SocketLink(theirs)


@pytest.mark.parametrize("announced", [1 << 30, 2**32 - 1, 0])
def test_a_socket_frame_of_a_hostile_length_is_refused_before_any_memory_is_taken(announced: int) -> None:
    ours, link = raw_pair()
    with ours:
        ours.sendall(struct.pack("<I", announced) + b"x")
        with pytest.raises(FrameError):
            link.receive(time.monotonic() + 5)
        link.close()


def test_a_socket_frame_that_arrives_byte_by_byte_is_read_or_times_out() -> None:
    ours, link = raw_pair()
    with ours:

        def drip() -> None:
            for byte in struct.pack("<I", 3) + b"abc":
                ours.sendall(bytes([byte]))

        sender = threading.Thread(target=drip)
        sender.start()
        assert link.receive(time.monotonic() + 5) == b"abc"
        sender.join()
        ours.sendall(struct.pack("<I", 3) + b"ab")
        with pytest.raises(PeerTimeoutError):
            link.receive(time.monotonic() + 0.2)
        link.close()


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
                link.receive(time.monotonic() + 10)
        assert accepted.empty()


def test_what_was_sent_arrives_although_the_dialler_closes_at_once(identities: Any) -> None:
    for _ in range(5):
        with links("grpc", identities) as (a, b):
            a.send(bytes(3 << 20))
            a.close()
            assert len(b.receive(time.monotonic() + 10)) == 3 << 20


def test_closing_from_another_thread_wakes_a_waiting_socket_at_once(identities: Any) -> None:
    with links("socket", identities) as (a, _):
        threading.Timer(0.2, a.close).start()
        started = time.monotonic()
        with pytest.raises(PeerClosedError):
            a.receive(time.monotonic() + 20)
        assert time.monotonic() - started < 5
