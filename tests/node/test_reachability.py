"""Whether a peer can be reached: real sockets, each way to fail with its own words and its own remedy."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley.federation.names import NodeName, Role
from parley.node import reachability, trust
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import NodeFolder
from parley.node.node_file import Address
from parley.node.reachability import UnreachableError, probe
from tests.support.examined import AUTHORITY, node, patient
from tests.support.until import GIVE_UP_SECONDS

LEAD, NORTH = NodeName("cardio", Role.coordinator, "lead"), NodeName("cardio", Role.aggregator, "north")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> NodeFolder:
    return NodeFolder(node(tmp_path / "hospital-c", Role.party, "hospital-c") / "identity")


def refusal(port: int, folder: NodeFolder, peer: NodeName = LEAD, host: str = "127.0.0.1") -> UnreachableError:
    with pytest.raises(UnreachableError) as refused:
        probe(Address(host, port), folder, peer)
    assert refused.value.fix
    return refused.value


@contextmanager
def answering(with_each: Callable[[socket.socket], object]) -> Iterator[int]:
    """Somebody else's server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                with_each(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(GIVE_UP_SECONDS)
        assert not thread.is_alive()


def test_a_peer_that_has_the_pinned_key_and_accepts_ours_is_reached(folder: NodeFolder, ports: dict[str, int]) -> None:
    found = probe(Address("127.0.0.1", ports["lead"]), folder, LEAD)
    assert found.name == LEAD
    assert found.milliseconds > 0


def test_another_node_at_that_address_is_told_from_the_right_one(folder: NodeFolder, ports: dict[str, int]) -> None:
    found = refusal(ports["lead"], folder, NORTH)
    assert f"does not have the key that is pinned for {NORTH}" in found.problem


def test_a_peer_that_has_not_pinned_this_node_is_asked_to(tmp_path: Path, ports: dict[str, int]) -> None:
    home = node(tmp_path / "stranger", Role.party, "hospital-c", ThrowAwayAuthority("cardio"))
    stranger = NodeFolder(home / "identity")
    assert refusal(ports["lead"], stranger).fix.endswith(f"`parley pin add {LEAD} PIN`")
    trust.add(stranger, LEAD, AUTHORITY.issue_as(LEAD).pin)
    found = refusal(ports["lead"], stranger)
    assert "does not accept this node's key" in found.problem
    assert "`parley pin add` there" in found.fix


def test_nobody_listens(folder: NodeFolder) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        found = refusal(held.getsockname()[1], folder)
        assert "refused" in found.problem
        assert found.fix.startswith("start the node there")


def test_who_answers_something_else_than_tls_is_no_node(folder: NodeFolder) -> None:
    with answering(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        assert "breaks off the handshake" in refusal(port, folder).problem


def test_who_hangs_up_is_no_node(folder: NodeFolder) -> None:
    with answering(lambda connection: connection.recv(1)) as port:
        assert "breaks off the handshake" in refusal(port, folder).problem


def test_who_says_nothing_is_not_waited_for_forever(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "CONNECT_SECONDS", 0.2)

    def silent(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    with answering(silent) as port:
        assert "accepts connections and says nothing" in refusal(port, folder).problem


def test_a_host_without_an_address_is_not_called_unreachable(
    folder: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = refusal(7400, folder, host="lead.invalid")
    assert (found.problem, found.fix) == (
        "lead.invalid has no address in DNS",
        "correct the host in node.toml, or the resolver: `getent hosts lead.invalid`",
    )


def test_without_an_identity_of_its_own_nobody_is_dialled(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = refusal(listener.getsockname()[1], NodeFolder(tmp_path / "nothing"))
        assert "own certificate cannot be used" in found.problem
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
