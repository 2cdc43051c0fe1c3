"""One word, two books: what a process notes is in its log and in its audit trail, and the trail names the event."""

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from parley.federation.names import Role
from parley.node import logs
from parley.node.node_file import Node, read_node
from parley.node.notes import notes
from parley.node.trail import Trail


@pytest.fixture
def here(party: Path, lines: io.StringIO) -> Node:
    """`lines` puts back what `configure` takes over."""
    return read_node(party)


def trail(node: Node) -> list[dict[str, Any]]:
    return [json.loads(line) for line in node.trail.read_text().splitlines()]


def test_an_event_is_in_the_log_and_on_the_trail_and_its_id_comes_back(here: Node) -> None:
    note, stream = notes(here), io.StringIO()
    logs.configure(Role.party, "hospital-c", stream=stream)
    found = note("run.joined", run="heart-1")
    last, said = trail(here)[-1], json.loads(stream.getvalue().splitlines()[-1])
    assert (last["event"], last["fields"], last["node"]) == (
        "run.joined",
        {"run": "heart-1"},
        "parley://cardio/party/hospital-c",
    )
    assert str(last["sequence"]) in found
    assert (said["event"], said["run"], said["level"]) == ("run.joined", "heart-1", "info")


def test_an_error_is_a_warning_in_the_log_and_none_of_it_is_on_the_trail(here: Node) -> None:
    note, stream = notes(here), io.StringIO()
    logs.configure(Role.party, "hospital-c", stream=stream)
    note("run.refused", ValueError("row 7: age 93.25"), run="heart-1")
    said = json.loads(stream.getvalue().splitlines()[-1])
    assert said["level"] == "warning"
    assert "93.25" not in stream.getvalue()  # a time may end in 93
    assert trail(here)[-1]["fields"] == {"run": "heart-1"}


def test_what_is_said_of_runs_is_durable_when_the_call_returns(here: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    note, durable = notes(here), dict[str, bool]()
    append = Trail.append

    def watched(self: Trail, event: str, **given: Any) -> str:
        durable[event] = given["durable"]
        return append(self, event, **given)

    monkeypatch.setattr(Trail, "append", watched)
    note("run.joined", run="heart-1")
    note("node.ready")
    assert durable == {"run.joined": True, "node.ready": False}


def test_the_state_folder_is_made_for_this_node_alone(here: Node) -> None:
    if here.state.exists():
        import shutil

        shutil.rmtree(here.state)
    notes(here)("node.ready")
    assert stat.S_IMODE(here.state.stat().st_mode) == 0o700
