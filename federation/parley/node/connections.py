"""Where a server listens, and how connections are kept and limited: gRPC's options, the same on both ends."""

from typing import Any

from parley.node.errors import NodeError

KEEPALIVE: list[tuple[str, int]] = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
]
"""On both ends: a server answers GOAWAY to a client that pings more often than the server allows."""

LISTENING: list[tuple[str, int]] = [
    *KEEPALIVE,
    ("grpc.so_reuseport", 0),  # a second process of a node cannot serve beside the first
    ("grpc.server_handshake_timeout_ms", 10_000),  # gRPC's 120 s let a stranger hold every file descriptor
]
"""For servers."""
MOST_CONNECTIONS = "grpc.max_allowed_incoming_connections"


def listening(most_connections: int) -> list[tuple[str, int]]:
    """For one listener: more connections are closed before a byte is read. One that never greets takes 70 KiB."""
    return [*LISTENING, (MOST_CONNECTIONS, most_connections)]


def bound(server: Any, address: str, credentials: Any) -> int:
    """The port of a new listener; a NodeError that says how to mend it where it cannot be had."""
    try:
        port = int(server.add_secure_port(address, credentials))
    except RuntimeError:  # what gRPC raises for any address that it cannot have
        port = 0
    if not port:
        _, _, number = address.rpartition(":")
        raise NodeError(
            f"cannot listen on {address}: choose another address in node.toml, or stop what uses it "
            f"(`ss -ltnp 'sport = :{number}'` shows it)"
        )
    return port
