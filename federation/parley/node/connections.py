"""How connections between nodes are kept and limited: gRPC's options, the same on both ends."""

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
