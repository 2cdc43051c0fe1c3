"""The coordinator knows which nodes of a run do not answer, and says so to its operator."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import parley.coordinator.process
from parley.node import vigil
from parley.v1 import operator_pb2
from tests.support.lead import SECONDS, Lead, asking, verified


@pytest.fixture
def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lead]:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)
    monkeypatch.setattr(vigil, "START_SECONDS", 1.0)
    made = Lead(tmp_path)
    yield made
    made.close()


def troubles(lead: Lead, run: str) -> dict[str, str]:
    found = lead.operator.Presence(operator_pb2.PresenceRequest(run=run), timeout=SECONDS).troubles
    assert all(each.seconds >= 0 for each in found)
    return {each.node: each.kind for each in found}


def until(lead: Lead, run: str, expected: dict[str, str]) -> None:
    ends = time.monotonic() + SECONDS
    while (found := troubles(lead, run)) != expected:
        assert time.monotonic() < ends, found
        time.sleep(0.05)


def test_an_aggregator_that_is_gone_and_parties_that_ask_nothing_are_named(lead: Lead) -> None:
    made = lead.running("troubles")
    silent = dict.fromkeys(made.parties, "silent")
    until(lead, made.run, silent)
    pending = lead.stub("hospital-a").NextRound.future(asking(made, wait=0.0), timeout=SECONDS)
    pending.result()
    until(lead, made.run, {name: kind for name, kind in silent.items() if name != "hospital-a"})
    lead._servers[1].stop(0)
    until(lead, made.run, {**silent, "south": "unreachable"})


def test_of_a_run_that_rests_nobody_is_missed(lead: Lead) -> None:
    made = lead.running("troubles")
    until(lead, made.run, dict.fromkeys(made.parties, "silent"))
    lead.operator.Stop(operator_pb2.StopRequest(run=made.run), timeout=SECONDS)
    until(lead, made.run, {})


def test_a_full_disk_of_its_own_is_named_too(lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lead.submit("troubles")
    monkeypatch.setattr(vigil, "LEAST_FREE_BYTES", 1 << 62)
    until(lead, made.run, {"lead": "disk_full"})
