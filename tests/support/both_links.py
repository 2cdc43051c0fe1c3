"""Links of both kinds."""

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.aggregator.grpc_link import GrpcLink, NoiseServicer, dial
from parley.bench.socket_link import SocketLink
from parley.mpc.channel import Link
from parley.node.authority import ThrowAwayAuthority, identity_uri
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity
from parley.v1 import noise_pb2_grpc
from tests.support.until import GIVE_UP_SECONDS


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
            yield link, accepted.get(timeout=GIVE_UP_SECONDS)
        finally:
            link.close()


@contextlib.contextmanager
def links(kind: str, identities: tuple[Path, Identity, Identity]) -> Iterator[tuple[Link, Link]]:
    folder, a, b = identities
    with socket_links(folder) if kind == "socket" else grpc_links(a, b) as pair:
        yield pair
