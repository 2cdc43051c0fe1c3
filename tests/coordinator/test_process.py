"""The coordinator knows which nodes of a run do not answer, and says so to its operator."""

import pytest

from parley.node import vigil
from parley.v1 import operator_pb2
from tests.support.lead import SECONDS, Lead, asking
from tests.support.until import until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "START_SECONDS", 1.0)


def troubles(lead: Lead, run: str) -> dict[str, str]:
    found = lead.operator.Presence(operator_pb2.PresenceRequest(run=run), timeout=SECONDS).troubles
    assert all(each.seconds >= 0 for each in found)
    return {each.node: each.kind for each in found}


def become(lead: Lead, run: str, expected: dict[str, str]) -> None:
    until(lambda: troubles(lead, run) == expected, f"that the troubles are {expected}")


@pytest.mark.slow
def test_an_aggregator_that_is_gone_and_parties_that_ask_nothing_are_named(lead: Lead) -> None:
    made = lead.running("troubles")
    silent = dict.fromkeys(made.parties, "silent")
    become(lead, made.run, silent)
    pending = lead.stub("hospital-a").NextRound.future(asking(made, wait=0.0), timeout=SECONDS)
    pending.result()
    become(lead, made.run, {name: kind for name, kind in silent.items() if name != "hospital-a"})
    lead._servers[1].stop(0)
    become(lead, made.run, {**silent, "south": "unreachable"})


def test_of_a_run_that_rests_nobody_is_missed(lead: Lead) -> None:
    made = lead.running("troubles")
    become(lead, made.run, dict.fromkeys(made.parties, "silent"))
    lead.operator.Stop(operator_pb2.StopRequest(run=made.run), timeout=SECONDS)
    become(lead, made.run, {})


def test_a_full_disk_of_its_own_is_named_too(lead: Lead, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lead.submit("troubles")
    monkeypatch.setattr(vigil, "LEAST_FREE_BYTES", 1 << 62)
    become(lead, made.run, {"lead": "disk_full"})
