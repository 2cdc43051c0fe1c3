"""Floods: one node of the federation, or somebody without a certificate, cannot take a server from the others."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley.aggregator.refusals import CallWaitsError
from parley.aggregator.spool import Room
from parley.aggregator.uploads import Upload
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import BLIND_BYTES
from parley.node.authorization import MOST_CALLS_OF_ONE
from parley.v1 import aggregator_pb2
from tests.support import documents
from tests.support.lead import SECONDS, Lead, asking, refused
from tests.support.servers import Federation, contributions, is_noised, open_request

SHARE, CONTROL = "/parley.v1.ShareService/Upload", "/parley.v1.ControlService/Open"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    federation = Federation(tmp_path_factory.mktemp("flooded"))
    federation.identities["north"] = federation._issue(Role.aggregator, "north")
    federation.start()
    yield federation
    federation.close()


@pytest.fixture(scope="module", autouse=True)
def silent(servers: Federation, lead: Lead) -> list[socket.socket]:
    """A connection to every port, opened before the other tests take their time."""
    ports = [*servers.servers[0].ports.values(), *servers.servers[1].ports.values(), lead.port]
    return [socket.create_connection(("127.0.0.1", port)) for port in ports]


@pytest.fixture
def manifest(servers: Federation, run_name: str) -> Manifest:
    made = documents.manifest(run=run_name)
    servers.admit(made)
    return made


def begun(channel: grpc.Channel, method: str, count: int) -> tuple[list[Any], threading.Event]:
    """Calls whose headers are sent and whose message never comes."""
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait(SECONDS)
        return
        yield b""

    make: Any = channel.stream_unary(method)
    return [make.future(nothing(), timeout=SECONDS) for _ in range(count)], over


def codes(calls: list[Any]) -> set[str]:
    return {refused(call.result) for call in calls}


@pytest.mark.slow
def test_calls_without_a_message_are_given_up_and_do_not_keep_others_out(
    servers: Federation, manifest: Manifest
) -> None:
    """Slow loris by a party with a certificate: more begun calls than the share port answers at once."""
    calls, over = begun(servers.channel("hospital-a", 0, "share"), SHARE, MOST_CALLS_OF_ONE + 40)
    made = contributions(manifest, 0)
    servers.upload_all([made[1], made[2]])
    done, waiting = futures.wait(
        [result_of(call) for call in calls], timeout=SECONDS / 2
    )  # before their own time is up
    over.set()
    assert {each.result() for each in done} == {"busy", "deadline_exceeded"}
    assert not waiting
    servers.upload_all([made[0]])
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)


def result_of(call: Any) -> "futures.Future[str]":
    made: futures.Future[str] = futures.Future()
    threading.Thread(target=lambda: made.set_result(refused(call.result)), daemon=True).start()
    return made


def test_who_may_not_call_is_told_so_before_any_message(servers: Federation, lead: Lead) -> None:
    """A party cannot fill the control port, nor an aggregator the coordinator's, with calls that say nothing."""
    calls, over = begun(servers.channel("hospital-a", 0, "control"), CONTROL, 20)
    assert codes(calls) == {"unavailable"}  # by TLS: not even connections
    calls, other = begun(
        lead.channel(NodeName("cardio", Role.aggregator, "north")), "/parley.v1.CoordinatorService/Join", 20
    )
    assert codes(calls) == {"permission_denied"}
    over.set()
    other.set()


def test_nobody_watches_a_server_for_ever(servers: Federation, manifest: Manifest) -> None:
    """A watch has no end: eight parties that collude would take every place of the share port."""
    stub: Any = health_pb2_grpc.HealthStub(servers.channel("hospital-a", 0, "share"))
    watches = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS) for _ in range(20)]
    assert {refused(lambda w=watch: next(w)) for watch in watches} == {"permission_denied"}  # type: ignore[misc]


def test_no_party_keeps_the_two_servers_apart(servers: Federation, manifest: Manifest) -> None:
    """On the port where A dials B nobody else is let in, by TLS itself: not even to hold a connection."""
    stub: Any = health_pb2_grpc.HealthStub(servers.channel("hospital-a", 1, "peer"))
    watches = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS) for _ in range(80)]
    assert {refused(lambda w=watch: next(w)) for watch in watches} == {"unavailable"}  # type: ignore[misc]
    servers.upload_all(contributions(manifest, 0))
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip], ids=["plain", "bomb"])
@pytest.mark.slow
def test_giant_messages_are_cut_by_the_transport(
    servers: Federation, lead: Lead, compression: grpc.Compression
) -> None:
    giant = b"\0" * (64 << 20)
    for channel, method in (
        (servers.channel("hospital-a", 0, "share"), SHARE),
        (servers.channel("lead", 0, "control"), CONTROL),
        (lead.channel("hospital-a"), "/parley.v1.CoordinatorService/ListRuns"),
    ):
        call: Any = channel.unary_unary(method)
        assert refused(lambda c=call: c(giant, timeout=SECONDS, compression=compression)) == "resource_exhausted"  # type: ignore[misc]


def test_a_wait_that_is_no_number_does_not_hold_up_others(servers: Federation, manifest: Manifest) -> None:
    """nan among an event loop's timers would spoil their order, for every run of the server."""
    waiting = servers.control(0).Open.future(open_request(manifest, 0, wait_seconds=25.0), timeout=SECONDS)
    time.sleep(0.3)
    for wait in (float("nan"), float("-inf"), -1.0, 0.5):
        answer = servers.control(0).Open(open_request(manifest, 0, wait_seconds=wait), timeout=SECONDS)
        assert answer.state == aggregator_pb2.OpenResponse.STATE_WAITING
    assert not waiting.done()
    servers.upload_all(contributions(manifest, 0))
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)
    assert waiting.result().state == aggregator_pb2.OpenResponse.STATE_OPENED


def test_a_list_of_expected_parties_without_end_is_refused(servers: Federation, manifest: Manifest) -> None:
    many = [f"p{number}" for number in range(200_000)]
    assert refused(lambda: servers.control(0).Open(open_request(manifest, 0, expected=many))) == "malformed"


def test_uploads_beyond_the_servers_memory_have_to_wait(tmp_path: Path) -> None:
    made = documents.manifest()
    room = Room(tmp_path, 40)
    first, second = (contributions(made, 0)[place].request(0) for place in (0, 1))
    upload = Upload(made, 0, "hospital-a", first, room)
    with pytest.raises(CallWaitsError, match="wait for rounds to be opened"):
        Upload(made, 0, "hospital-b", second, room)
    upload.erase()
    Upload(made, 0, "hospital-b", second, room)
    assert room.held == second.size - BLIND_BYTES


@pytest.mark.slow
def test_a_connection_that_never_greets_is_closed(silent: list[socket.socket]) -> None:
    """Somebody without a certificate cannot hold a file descriptor for minutes by saying nothing."""
    for each in silent:
        each.settimeout(SECONDS / 2)
        with contextlib.suppress(ConnectionResetError):
            while each.recv(4096):
                pass
        each.close()


@pytest.mark.slow
def test_polls_and_proposals_in_numbers_leave_the_honest_run_alone(lead: Lead, running: Manifest) -> None:
    """Two thousand calls of every kind by one party, wrong ones among them."""
    stub = lead.stub("hospital-c")
    calls = []
    for number in range(2000):
        after = (-1, 0, 5, -2)[number % 4]
        calls.append(stub.NextRound.future(asking(running, after, 0.0), timeout=SECONDS))
        if len(calls) > 100:
            calls.pop(0).exception()
    lead.finishes(running)
