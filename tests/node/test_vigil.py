"""Who answers and who does not, over real servers on loopback: a line when it begins, one when it is over, no more."""

import io
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley.demo.local import ReservedPort
from parley.federation.names import NodeName, Role
from parley.node import logs, vigil
from parley.node.authority import ThrowAwayAuthority
from parley.node.authorization import Authorization, Authorizer
from parley.node.credentials import NodeFolder
from parley.node.transport import open_channel, server_credentials
from parley.node.vigil import DISK_FULL, SILENT, UNREACHABLE, Health, Incidents, Vigil, quiet_seconds
from tests.support.until import GIVE_UP_SECONDS, until

AUTHORITY = ThrowAwayAuthority("cardio")
NORTH, SOUTH = (NodeName("cardio", Role.aggregator, name) for name in ("north", "south"))
BEGINS, ENDS = "a node does not answer", "a node is well again"
STILL = "this process stood still"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """What is logged; that this process stood still, as it may on a busy machine, for who asks for `still` alone.

    Everything that `configure` takes over is put back.
    """
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    handlers, level, stream = list(root.handlers), root.level, io.StringIO()
    logs.configure(Role.coordinator, "lead", stream=stream)
    monkeypatch.setattr(vigil, "START_SECONDS", 1.0)
    monkeypatch.setattr(vigil, "PATIENCE_SECONDS", 3.0)

    def read(still: bool = False) -> list[dict[str, Any]]:
        every = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in every if still or line["event"] != STILL]

    yield read
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(False)
    logs._sink.__init__()  # type: ignore[misc]


def folder_of(path: Path, name: NodeName) -> NodeFolder:
    return AUTHORITY.install(path / name.name, name)


def told(lines: Callable[..., list[dict[str, Any]]], still: bool = False) -> list[tuple[str, str]]:
    return [(line["event"], line.get("kind", "")) for line in lines(still)]


class Turns:
    """Looks of vigils at those they watch over, counted: time as they have it, however busy the machine is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of_who_asks: bool = True) -> None:
        self.count, judges = 0, Vigil._judge
        self.missed = 0
        """How many had passed when a vigil that is counted first missed somebody."""

        def counted(made: Vigil, dialled: dict[NodeName, str]) -> None:
            self.count += bool(dialled) is of_who_asks
            judges(made, dialled)
            if bool(dialled) is of_who_asks and made.incidents.now():
                self.missed = self.missed or self.count

        monkeypatch.setattr(Vigil, "_judge", counted)

    def pass_by(self, more: int) -> None:
        least = self.count + more
        until(lambda: self.count >= least)


class Two:
    """South serves its health, north asks for it."""

    def __init__(self, path: Path) -> None:
        self.path, self.folders = path, {name: folder_of(path, name) for name in (NORTH, SOUTH)}
        (path / "state").mkdir()
        self.callers: dict[NodeName, float] = {}
        self.reserved = ReservedPort()  # for one life after another
        self.serve()

    def serve(self) -> None:
        """South, in a new life."""
        self.south = Vigil(self.folders[SOUTH], SOUTH, self.path / "state", callers=lambda: self.callers)
        check = Authorizer({"/grpc.health.v1.Health/Check": {NORTH}}, self.folders[SOUTH])
        self.server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=[Authorization(check)])
        health_pb2_grpc.add_HealthServicer_to_server(Health(self.south), self.server)
        credentials = server_credentials(self.folders[SOUTH])
        self.server.add_secure_port(str(self.reserved), credentials)
        self.server.start()
        self.south.start()

    def stop(self) -> None:
        self.server.stop(0).wait()
        self.south.stop()

    def asking(self) -> Vigil:
        targets = {SOUTH: str(self.reserved)}
        made = Vigil(self.folders[NORTH], NORTH, self.path / "state", lambda: targets)
        made.start()
        return made


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    yield made
    made.stop()
    made.reserved.close()


def test_an_incident_is_said_once_however_often_it_is_seen(lines: Callable[[], list[dict[str, Any]]]) -> None:
    found = Incidents()
    began = time.monotonic() - 2
    for kind in (SILENT, SILENT, UNREACHABLE, SILENT):
        found.note(SOUTH, kind, began)
    assert [(each.node, each.kind) for each in found.now()] == [(SOUTH, SILENT)]
    found.note(SOUTH, DISK_FULL, time.monotonic())
    found.note(SOUTH, DISK_FULL, time.monotonic())
    found.over(SOUTH)
    found.over(SOUTH)
    assert told(lines) == [(BEGINS, SILENT), ("a node has no space on its disk", DISK_FULL), (ENDS, DISK_FULL)]
    assert lines()[0]["peer"] == SOUTH.uri
    assert lines()[0]["seconds"] >= 2
    assert not found.now()


def test_restarts_of_a_node_that_keeps_restarting_fill_no_log(lines: Callable[[], list[dict[str, Any]]]) -> None:
    found = Incidents()
    found.note(SOUTH, DISK_FULL, time.monotonic())
    assert [found.restarted(SOUTH) for _ in range(100)] == [True] + [False] * 99
    assert [event for event, _ in told(lines)].count("a node was restarted") == 1


@pytest.mark.slow
def test_of_two_restarts_soon_after_each_other_both_are_said(
    two: Two, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    north = two.asking()
    try:
        until(lambda: SOUTH in north._lives)
        for life in ("second", "third"):
            two.south._life = life
            until(lambda life=life: north._lives[SOUTH] == life)  # type: ignore[misc]
        assert told(lines) == [("a node was restarted", "restarted")] * 2
    finally:
        north.stop()


@pytest.mark.slow
def test_a_server_that_is_gone_is_named_within_two_seconds_and_once_more_when_it_is_back(
    two: Two, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds of its own turns: on a busy machine turns come late, and then so does the word."""
    turns = Turns(monkeypatch)
    north = two.asking()
    try:
        until(lambda: SOUTH in north._said)
        two.stop()
        begun = turns.count
        until(lambda: told(lines) == [(BEGINS, UNREACHABLE)])
        assert (turns.missed - begun) * vigil.TURN_SECONDS <= 2
        assert [each.kind for each in north.troubles()] == [UNREACHABLE]
        turns.pass_by(6)
        assert len(lines()) == 1, "a lasting incident is said once"
        two.serve()
        until(lambda: (ENDS, UNREACHABLE) in told(lines))
        assert ("a node was restarted", "restarted") in told(lines)
        assert [each.kind for each in north.troubles()] == ["restarted"], "for a minute"
    finally:
        north.stop()


@pytest.mark.slow
def test_a_server_that_is_there_and_answers_nothing_is_silent(
    two: Two, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process is that somebody has paused: its connections stay, and nothing comes."""
    north, going = two.asking(), threading.Event()
    try:
        until(lambda: SOUTH in north._said)
        exchange = vigil._exchange
        monkeypatch.setattr(vigil, "_exchange", lambda *both: (going.wait(), exchange(*both)))
        until(lambda: told(lines) == [(BEGINS, SILENT)])
        going.set()
        until(lambda: told(lines) == [(BEGINS, SILENT), (ENDS, SILENT)])
        assert lines()[1]["seconds"] >= vigil.PATIENCE_SECONDS
    finally:
        going.set()
        north.stop()


@pytest.mark.slow
def test_a_silent_peer_does_not_hold_up_the_watch_over_others(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """While not one question comes back, turns pass."""
    going, turns = threading.Event(), Turns(monkeypatch)
    north = two.asking()
    try:
        until(lambda: SOUTH in north._said)
        monkeypatch.setattr(vigil, "_exchange", lambda *both: going.wait())
        until(lambda: north.troubles())
        turns.pass_by(6)
    finally:
        going.set()
        north.stop()


@pytest.mark.slow
def test_a_caller_that_stops_asking_is_named_and_missed_only_while_it_is_waited_for(
    two: Two, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    two.callers[NORTH] = 0.0
    north = two.asking()
    until(lambda: NORTH in two.south._heard)
    north.stop()
    until(lambda: told(lines) == [(BEGINS, SILENT)])
    assert lines()[0]["peer"] == NORTH.uri
    del two.callers[NORTH]
    until(lambda: not two.south.troubles())
    assert len(lines()) == 1


@pytest.mark.slow
def test_a_caller_that_was_heard_of_in_another_way_before_it_asked_was_not_restarted(
    two: Two, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(monkeypatch, of_who_asks=False)
    two.callers[NORTH] = time.monotonic()
    turns.pass_by(3)
    north = two.asking()
    try:
        until(lambda: NORTH in two.south._lives)
        turns.pass_by(3)
        assert lines() == []
    finally:
        north.stop()


def test_a_caller_that_was_never_there_is_given_time_to_start(
    two: Two, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    began = time.monotonic()
    two.callers[NORTH] = 0.0
    until(lambda: told(lines) == [(BEGINS, SILENT)])
    assert time.monotonic() - began >= vigil.START_SECONDS


@pytest.mark.slow
def test_a_full_disk_is_told_to_those_who_ask_and_is_no_health(
    two: Two, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    two.callers[NORTH] = 0.0
    north = two.asking()
    try:
        until(lambda: SOUTH in north._said)
        monkeypatch.setattr(vigil, "LEAST_FREE_BYTES", 1 << 62)
        full = "a node has no space on its disk"
        until(lambda: {line.get("peer") for line in lines() if line["event"] == full} == {NORTH.uri, SOUTH.uri})
        assert {each.node for each in north.troubles()} == {NORTH, SOUTH}
        identity = two.folders[NORTH].load()
        with open_channel(str(two.reserved), identity, SOUTH) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=GIVE_UP_SECONDS)
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        monkeypatch.undo()
        until(lambda: not north.troubles() and not two.south.troubles())
        events = [event for event, _ in told(lines)]
        assert events.count("this node has no space on its disk") == 2  # both are of this process, on one disk
        assert events.count("this node has space on its disk again") == 2
        assert events.count(full) == events.count(ENDS) == 2
    finally:
        north.stop()


@pytest.mark.slow
def test_a_process_that_stood_still_blames_nobody_but_itself(
    two: Two, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    two.callers[NORTH] = 0.0
    north = two.asking()
    try:
        until(lambda: NORTH in two.south._heard)
        looks, still = Vigil._look_at_disk, [3.5, 3.5]

        def slowly(self: Vigil) -> None:
            time.sleep(still.pop() if still else 0.0)
            looks(self)

        monkeypatch.setattr(Vigil, "_look_at_disk", slowly)
        until(lambda: told(lines, still=True).count((STILL, "")) >= 2)
        time.sleep(1.0)
        assert {event for event, _ in told(lines, still=True)} == {STILL}
    finally:
        north.stop()


def test_standing_still_ends_no_trouble_and_brings_none_back(
    two: Two, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """A question to south came to nothing, and then south was heard of in another way; a party has been silent."""
    party, now = NodeName("cardio", Role.party, "hospital-a"), time.monotonic()
    made = Vigil(two.folders[NORTH], NORTH, two.path / "state", callers=lambda: {party: 0.0})
    made._heard, made._failed = {SOUTH: now - 0.1, party: now - 9.0}, {SOUTH: (now - 100.0, SILENT)}
    made._judge({SOUTH: ""})
    made._stood_still(1.0)
    made._judge({SOUTH: ""})
    assert [(line["event"], line["peer"]) for line in lines()] == [(BEGINS, party.uri)]
    made.heard(party)
    made._judge({SOUTH: ""})
    assert [line["event"] for line in lines()] == [BEGINS, ENDS]


@pytest.mark.slow
def test_a_pause_while_questions_are_put_is_noticed_too(
    two: Two, lines: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    north = two.asking()
    try:
        until(lambda: SOUTH in north._said)
        asks, pauses = Vigil._ask, [3.0]

        def slowly(self: Vigil, dialled: dict[NodeName, str]) -> None:
            asks(self, dialled)
            if self is north:
                time.sleep(pauses.pop() if pauses else 0.0)

        monkeypatch.setattr(Vigil, "_ask", slowly)
        until(lambda: (STILL, "") in told(lines, still=True))
        time.sleep(1.0)
        assert {event for event, _ in told(lines, still=True)} == {STILL}
    finally:
        north.stop()


@pytest.mark.slow
def test_whoever_answers_other_calls_is_not_asked(two: Two) -> None:
    asked = two.asking()
    try:
        until(lambda: NORTH in two.south._heard)
        in_time, before = 0, 0.0
        while in_time < 60:  # after a pause of this machine in which it was asked, as it should be, all over again
            began = time.monotonic()
            asked.heard(SOUTH)
            if in_time == 30:
                before = two.south._heard[NORTH]
            time.sleep(0.05)
            in_time = in_time + 1 if time.monotonic() - began < vigil.QUIET_SECONDS / 2 else 0
        assert two.south._heard[NORTH] == before
        until(lambda: two.south._heard[NORTH] > before)
    finally:
        asked.stop()


def test_a_server_of_many_parties_is_asked_no_more_often() -> None:
    assert quiet_seconds(3) == quiet_seconds(100) == vigil.QUIET_SECONDS
    assert 1000 / quiet_seconds(1000) == pytest.approx(100 / vigil.QUIET_SECONDS)
