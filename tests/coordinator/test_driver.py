"""A coordinator whose disk is full, or that dies while it ends a run: what was begun is carried through."""

import sqlite3
import threading
import time
from dataclasses import replace
from typing import Any

import grpc
import pytest

import parley.coordinator.process
from parley.coordinator.store import State
from parley.federation.errors import TrailError
from parley.v1 import operator_pb2
from tests.support.lead import SECONDS, Lead
from tests.support.until import until


class Disk:
    """Full until it is freed; whatever would write to it fails, as SQLite and the trail do."""

    def __init__(self, lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full, self.failed = threading.Event(), threading.Event()
        store, books = lead.process.store, lead.process.runs._tools.books
        for owner, name in ((store, "advance"), (store, "finish"), (store, "set_state"), (books, "record")):
            monkeypatch.setattr(owner, name, self._writing(getattr(owner, name)))
        monkeypatch.setattr(parley.coordinator.process, "disk_is_full", lambda folder: self.is_full.is_set())

    def _writing(self, write: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            if self.is_full.is_set():
                self.failed.set()
                raise sqlite3.OperationalError("database or disk is full")
            return write(*arguments)

        return wrapped


def test_a_run_whose_coordinator_has_no_room_on_its_disk_goes_on_by_itself(
    lead: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lead.running("no-room")
    disk = Disk(lead, monkeypatch)
    disk.is_full.set()
    lead.opening.set()
    assert disk.failed.wait(SECONDS)
    time.sleep(0.5)
    assert not lead.process.runs.all[made.digest].state.resting
    disk.is_full.clear()
    lead.until(made, State.finished)


def test_a_stop_on_a_full_disk_leaves_no_run_without_a_driver(lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lead.running("no-room")
    disk = Disk(lead, monkeypatch)
    disk.is_full.set()
    with pytest.raises(grpc.RpcError):
        lead.operator.Stop(operator_pb2.StopRequest(run=made.run), timeout=SECONDS)
    disk.is_full.clear()
    lead.finishes(made)


def test_an_end_on_a_full_disk_waits_for_room(lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lead.running("no-room")
    disk = Disk(lead, monkeypatch)
    disk.is_full.set()
    stop = operator_pb2.StopRequest(run=made.run, final=True)
    stopping = lead.operator.Stop.future(stop, timeout=SECONDS)
    assert disk.failed.wait(SECONDS)
    disk.is_full.clear()
    assert stopping.result().state == State.failed


def test_a_trail_that_cannot_be_written_lets_a_run_rest_and_does_not_end_it(
    lead: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(event: str, **_: Any) -> str:
        if event == "round.opened":
            raise TrailError("trail.jsonl cannot be written")
        return ""

    runs = lead.process.runs
    monkeypatch.setattr(runs, "_tools", replace(runs._tools, note=note))
    made = lead.running("no-trail")
    lead.opening.set()
    run = runs.all[made.digest]
    until(lambda: run.state.resting)
    assert (run.state, "TrailError" in run.outcome) == (State.stalled, True)


def test_an_end_that_was_begun_is_carried_through_by_the_next_process(lead: Lead) -> None:
    """One server has signed, the other is away, and the coordinator dies: nobody has to ask for the end again."""
    made = lead.running("ending")
    lead.servers[1].away = True
    stop = operator_pb2.StopRequest(run=made.run, final=True)
    stopping = lead.operator.Stop.future(stop, timeout=SECONDS)
    lead.until(made, State.ending)
    lead.restart()
    assert stopping.exception() is not None
    assert lead.process.runs.all[made.digest].state is State.ending
    lead.servers[1].away = False
    run = lead.process.runs.all[made.digest]
    until(lambda: run.state.resting)
    assert (run.state, run.outcome) == (State.failed, "stopped for good by the operator")
    row = lead.process.store.find(made.run)
    assert (row.state, row.outcome) == (run.state, run.outcome)
