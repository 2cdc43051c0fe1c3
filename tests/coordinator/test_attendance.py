"""While a run is gathered, everybody who looks is told who is missing and until when."""

import datetime as dt
import io
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.coordinator import attendance
from parley.coordinator.attendance import Gathering, iso, moment, named
from parley.coordinator.operator_client import Coordinator
from parley.federation.names import NodeName, Role
from parley.node import logs
from tests.support.lead import SECONDS, Lead, joining
from tests.support.until import until

NORTH = NodeName("cardio", Role.aggregator, "north")
PARTIES = [NodeName("cardio", Role.party, f"hospital-{letter}") for letter in "abcdefghijkl"]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    handlers, level, stream = list(root.handlers), root.level, io.StringIO()
    logs.configure(Role.coordinator, "lead", stream=stream)
    monkeypatch.setattr(attendance, "SAID_SECONDS", 0.05)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(False)
    logs._sink.__init__()  # type: ignore[misc]


def waiting(stream: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line["event"] == "run.waiting"]


def test_the_log_the_socket_and_the_status_name_who_is_missing_and_until_when(log: io.StringIO, lead: Lead) -> None:
    made = lead.submit("slow")
    for party in made.parties[:2]:
        lead.stub(party).Join(joining(made), timeout=SECONDS)
    last = PARTIES[2]
    until(lambda: bool(waiting(log)) and waiting(log)[-1]["missing"] == [last.uri])
    line = waiting(log)[-1]
    assert (line["run"], line["present"], line["expected"]) == (made.run, 2, 3)
    said_at, until_when = (dt.datetime.fromisoformat(line[key]) for key in ("time", "until"))
    assert dt.timedelta(minutes=30) < until_when - said_at <= dt.timedelta(hours=1)  # --gather of this coordinator
    lines = len(waiting(log))
    coordinator = Coordinator(lead.folder)
    row = coordinator.store.find(made.run)
    found = coordinator.gathering(row, coordinator.presence_if_it_runs(row))
    assert found is not None
    assert str(found) == f"2 of 3, waiting for hospital-c until {moment(found.until)}"
    assert iso(found.until) == line["until"]
    said = CliRunner().invoke(app, ["status", "--node", str(lead.folder), "--json"])
    (body,) = json.loads(said.stdout)["runs"]
    assert body["gathering"] == {
        "joined": 2, "parties": 3, "waiting": [last.uri], "refused": [], "until": line["until"]
    }  # fmt: skip
    assert len(waiting(log)) == lines, "it is said again only when it has changed"
    lead.stub(last.name).Join(joining(made), timeout=SECONDS)
    until(lambda: coordinator.gathering(coordinator.store.find(made.run), None) is None)
    assert coordinator.presence(made.run).gathering_until == 0.0


def test_a_server_that_has_not_decided_is_waited_for_too(
    log: io.StringIO, lead: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead.servers[0].pending = True
    made = lead.submit("undecided")
    for party in made.parties:
        lead.stub(party).Join(joining(made), timeout=SECONDS)
    until(lambda: bool(waiting(log)) and waiting(log)[-1]["missing"] == [NORTH.uri])
    assert waiting(log)[-1]["present"] == 3
    lead.servers[0].pending = False
    coordinator = Coordinator(lead.folder)
    until(lambda: coordinator.gathering(coordinator.store.find(made.run), None) is None)


def test_in_words() -> None:
    until_when = time.time() + 7200
    text = str(Gathering(1, 2, (PARTIES[1],), (), until_when))
    assert text == f"1 of 2, waiting for hospital-b until {moment(until_when)}"
    assert str(Gathering(1, 3, (NORTH, PARTIES[1]), (PARTIES[2],))) == (
        "1 of 3, waiting for aggregator north and hospital-b, hospital-c refused"
    )
    assert str(Gathering(2, 2, (), ())) == "2 of 2"
    assert named(PARTIES).endswith("hospital-i, hospital-j and 2 more")


def test_a_moment_has_its_day_where_that_is_not_today_and_seconds_where_it_is_soon() -> None:
    now = dt.datetime.now()
    assert moment((now + dt.timedelta(days=2)).timestamp()) == f"{now + dt.timedelta(days=2):%Y-%m-%d %H:%M}"
    soon = now + dt.timedelta(seconds=30)
    assert moment(soon.timestamp()).endswith(f"{soon:%H:%M:%S}")


def test_without_its_coordinator_a_run_that_gathers_has_no_deadline(tmp_path: Path, lead: Lead) -> None:
    made = lead.submit("left")
    coordinator = Coordinator(lead.folder)
    until(lambda: len(coordinator.store.answers(made.digest)) == 2)  # both servers'
    lead._await(lead.process.runs.close())
    found = coordinator.gathering(coordinator.store.find(made.run), None)
    assert found is not None
    assert str(found) == "0 of 3, waiting for hospital-a, hospital-b and hospital-c"
    assert found.as_json()["until"] is None
