"""The relay delays everything by what it is told, and loses nothing; ratios are of the same round."""

import socket
import threading
import time

import pytest

from parley.bench.noise_lines import Relay, lines, parse_round_trip, parse_workers
from parley.mpc.errors import ConfigurationError
from parley.mpc.parts import JOINT, parts_of


@pytest.fixture
def echo() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            while data := connection.recv(1 << 16):
                connection.sendall(data)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_what_comes_back_comes_a_round_trip_later_and_whole(echo: socket.socket) -> None:
    sent = bytes(range(256)) * 4096
    with echo, Relay(echo.getsockname()[1], 0.2) as relay, socket.create_connection(("127.0.0.1", relay.port)) as end:
        started = time.monotonic()
        end.sendall(b"x")
        assert end.recv(1) == b"x"
        assert time.monotonic() - started >= 0.2
        threading.Thread(target=end.sendall, args=(sent,), daemon=True).start()
        got = bytearray()
        while len(got) < len(sent):
            got += end.recv(1 << 16)
        assert got == sent
        end.shutdown(socket.SHUT_WR)
        assert end.recv(1) == b""


@pytest.mark.parametrize("text", ["50", "0ms", "1001ms", "-1ms", "1.5ms", "ms"])
def test_no_other_round_trip_is_understood(text: str) -> None:
    with pytest.raises(ConfigurationError, match="give 1ms to 1000ms"):
        parse_round_trip(text)


def test_numbers_of_workers() -> None:
    assert (parse_round_trip("50ms"), parse_workers("auto"), parse_workers("16")) == (0.05, "auto", 16)
    for text in ("0", "17", "all", "-1"):
        with pytest.raises(ConfigurationError, match="give auto, or a number from 1 to 16"):
            parse_workers(text)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [JOINT, parts_of("covert", 0.5)], ids=["semi-honest", "covert"])
def test_a_line_is_measured_beside_loopback_and_one_worker(parts: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.bench.noise_lines.ROUNDS", 1)
    found = lines("strips", "standard", parts, 1024, 0.02, 3, 0.5)  # type: ignore[arg-type]
    assert [way["workers"] for way in found["ways"].values()] == [3, 3, 1, 1]
    assert all(way["gaussians_per_second"] > 0 for way in found["ways"].values())
    rates = {name: way["gaussians_per_second"] for name, way in found["ways"].items()}
    assert found["over_one_worker"] == pytest.approx(rates["line"] / rates["line_one_worker"])
    best = max(rates["loopback"], rates["loopback_one_worker"])
    assert found["of_loopback"] == pytest.approx(rates["line"] / best)
