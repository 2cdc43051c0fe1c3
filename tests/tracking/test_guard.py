"""Nothing in a tracker's process reaches a machine that stands in no node.toml."""

import subprocess
import sys

import pytest

from parley.tracking.guard import hosts_of

ASK = """
import socket, sys, threading
from parley.tracking.guard import keep_quiet
place = {place!r}
guard = keep_quiet(place)
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
said = []
def tried(what):
    try:
        what()
        said.append("done")
    except OSError as error:
        said.append(type(error).__name__)
tried(lambda: socket.create_connection(("127.0.0.1", port)).close())
tried(lambda: socket.socket().connect(("127.0.0.1", port)))
tried(lambda: socket.getaddrinfo("example.org", 443))
tried(lambda: socket.gethostbyname("example.org"))
tried(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)))
one, other = socket.socketpair()
one.sendall(b"own")
print(said, guard.refused, other.recv(3))
"""
REFUSED = "RefusedConnectionError"


def asked(place: object) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASK.format(place=place)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_with_a_folder_nobody_is_reached_and_no_name_is_looked_up() -> None:
    assert asked(None) == f"{[REFUSED] * 5} 5 b'own'"


def test_with_a_server_it_alone_is_looked_up() -> None:
    found = asked("http://127.0.0.1:5000")
    assert found.startswith(f"{['done', 'done', REFUSED, REFUSED, 'done']}")


@pytest.mark.parametrize(
    ("place", "hosts"),
    [
        (None, set()),
        ("https://mlflow.example.org/base", {"mlflow.example.org"}),
        ("http://[::1]:5000", {"::1"}),
    ],
)
def test_the_host_is_the_addresss_own(place: object, hosts: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert hosts_of(place) == hosts


def test_a_proxy_on_the_way_to_a_server_may_be_reached_and_none_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example.org:3128")
    monkeypatch.delenv("https_proxy", raising=False)
    assert "proxy.example.org" in hosts_of("https://mlflow.example.org")
    assert hosts_of(None) == set()
