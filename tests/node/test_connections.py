"""How connections are kept: what both ends say has to fit together, and gRPC has to know every word of it."""

import grpc

from parley.node.connections import KEEPALIVE, LISTENING, MOST_CONNECTIONS, listening


def test_a_server_allows_what_a_client_does() -> None:
    """It would answer GOAWAY to pings that come sooner than it allows, or without a call."""
    server, client = dict(LISTENING), dict(KEEPALIVE)
    assert server["grpc.http2.min_ping_interval_without_data_ms"] <= client["grpc.keepalive_time_ms"]
    assert server["grpc.keepalive_permit_without_calls"] == client["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.keepalive_timeout_ms"] < client["grpc.keepalive_time_ms"]
    assert server["grpc.server_handshake_timeout_ms"] <= 10_000
    assert server["grpc.so_reuseport"] == 0


def test_each_listener_has_its_own_limit_and_every_other_option() -> None:
    first, second = listening(7), listening(400)
    assert dict(first) == dict(LISTENING) | {MOST_CONNECTIONS: 7}
    assert dict(second)[MOST_CONNECTIONS] == 400
    assert MOST_CONNECTIONS not in dict(LISTENING)


def test_a_second_server_cannot_take_the_port_of_the_first() -> None:
    def server() -> grpc.Server:
        from concurrent.futures import ThreadPoolExecutor

        return grpc.server(ThreadPoolExecutor(1), options=listening(10))

    first, second = server(), server()
    port = first.add_insecure_port("127.0.0.1:0")
    try:
        bound = second.add_insecure_port(f"127.0.0.1:{port}")
    except RuntimeError:
        bound = 0
    assert (port > 0, bound) == (True, 0)
    first.stop(0)
    second.stop(0)
