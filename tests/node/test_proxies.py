"""The proxy that gRPC would take, and a way through it, over real sockets; gRPC itself says the same."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from parley.cli.commands.doctor import examine
from parley.node import proxies
from parley.node.doctor import FAILED, OK, WARNING
from parley.node.proxies import Proxy, ProxyError, proxy_to
from tests.support.examined import by_check
from tests.support.until import GIVE_UP_SECONDS, until


class Passing:
    """A proxy on loopback that opens every way it is asked for, or none."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.answer, self.asked = answer, list[str]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (data := client.recv(1)):
                    return
                head += data
            method, target, *_ = head.decode().split()
            if method != "CONNECT":  # gRPC's own first words, where it was sent through this proxy to this proxy
                return
            self.asked.append(head.decode())
            client.sendall(self.answer)
            if b" 200 " not in self.answer:
                return
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port))) as there:
                back = threading.Thread(target=_pass, args=(there, client), daemon=True)
                back.start()
                _pass(client, there)
                back.join()

    def close(self) -> None:
        self._listener.close()


def _pass(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passing]:
    for name in (*proxies.NAMES, *proxies.EXCEPTIONS):
        monkeypatch.delenv(name, raising=False)
    made = Passing()
    monkeypatch.setenv("https_proxy", f"http://user:word@127.0.0.1:{made.port}")
    yield made
    made.close()


def test_which_variable_counts_and_which_hosts_are_dialled_directly() -> None:
    both = {"http_proxy": "http://a:1", "https_proxy": "http://b:2"}
    assert proxy_to("host", both) == Proxy("b", 2, "https_proxy")
    assert proxy_to("host", both | {"grpc_proxy": "http://c:3"}) == Proxy("c", 3, "grpc_proxy")
    assert proxy_to("host", {}) is None
    assert proxy_to("host", both | {"grpc_proxy": ""}) is None  # as gRPC has it: the next variable does not count
    assert proxy_to("host", {"HTTPS_PROXY": "http://b:2"}) is None
    assert proxy_to("host", {"https_proxy": "socks5://b:2"}) is None
    assert proxy_to("host", {"https_proxy": "http://b:no"}) is None
    assert proxy_to("host", {"grpc_proxy": "", **both}) is None, "the first that is set counts"
    for entry in ("north.example.org", ".example.org", "x, EXAMPLE.org"):
        assert proxy_to("north.example.org", both | {"no_proxy": entry}) is None, entry
    assert proxy_to("10.1.2.3", both | {"no_proxy": "10.0.0.0/8"}) is None
    assert proxy_to("10.1.2.3", both | {"no_proxy": "10.0.0.0/8", "no_grpc_proxy": ""}) is not None
    assert str(proxy_to("h", {"https_proxy": "http://user:secret@b:2"})) == "b:2"


def test_a_proxy_that_grpc_would_not_take_is_said(party: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*proxies.NAMES, *proxies.EXCEPTIONS):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert proxies.ignored({}) is None
    assert proxies.ignored({"https_proxy": "http://b:2"}) is None
    assert proxies.ignored({"grpc_proxy": ""}) is None
    for variables, said in (
        ({"HTTPS_PROXY": "http://b:2"}, "HTTPS_PROXY is not read by gRPC"),
        ({"https_proxy": "b:2"}, "https_proxy is no address of the form http://HOST:PORT"),
        ({"https_proxy": "https://b:2"}, "https_proxy is no address"),
    ):
        assert said in (proxies.ignored(variables) or ""), variables
    assert "proxy" not in by_check(examine(party))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    found = by_check(examine(party))
    assert (found["proxy"].state, found["coordinator lead"].state) == (WARNING, OK)


def test_the_doctor_goes_the_way_that_grpc_goes(party: Path, proxy: Passing, monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_check(examine(party))["coordinator lead"]
    assert found.state == OK, found
    assert f"through the proxy 127.0.0.1:{proxy.port}" in found.problem
    assert "word" not in found.problem
    assert "Proxy-Authorization: Basic dXNlcjp3b3Jk" in proxy.asked[0]
    before = len(proxy.asked)
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:  # gRPC takes the same way to the same host
        ready = grpc.channel_ready_future(channel)
        until(lambda: len(proxy.asked) > before)
        ready.cancel()
    monkeypatch.setenv("grpc_proxy", "")  # is set, and stands for none
    asked = len(proxy.asked)
    said = by_check(examine(party))
    assert (said["coordinator lead"].state, "through" in said["coordinator lead"].problem) == (OK, False)
    assert "grpc_proxy is empty and stands before https_proxy" in said["proxy"].problem
    peer = socket.create_server(("127.0.0.1", 0))
    with peer, grpc.insecure_channel(f"127.0.0.1:{peer.getsockname()[1]}") as channel:
        ready = grpc.channel_ready_future(channel)
        peer.accept()[0].close()
        ready.cancel()
    assert len(proxy.asked) == asked
    monkeypatch.delenv("grpc_proxy")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = by_check(examine(party))["coordinator lead"]
    assert (found.state, "through" in found.problem) == (OK, False)
    assert len(proxy.asked) == asked


def test_a_proxy_that_refuses_or_is_not_there_is_named_with_what_to_do(party: Path, proxy: Passing) -> None:
    proxy.answer = b"HTTP/1.1 403 Forbidden\r\n\r\n"
    found = by_check(examine(party))["coordinator lead"]
    assert found.state == FAILED
    assert f"the proxy 127.0.0.1:{proxy.port} of https_proxy answers 403 to CONNECT 127.0.0.1:" in found.problem
    assert found.fix.startswith("`export no_grpc_proxy=127.0.0.1`")
    proxy.answer = b"nonsense"
    with pytest.raises(ProxyError, match="answer"):
        Proxy("127.0.0.1", proxy.port, "https_proxy").connect("127.0.0.1", 1, GIVE_UP_SECONDS)
    proxy.close()
    with pytest.raises(ProxyError, match="cannot be reached"):
        Proxy("nowhere.invalid", 1, "https_proxy").connect("127.0.0.1", 1, GIVE_UP_SECONDS)
