"""What a page knows of each node of a run."""

import dataclasses
import json

from parley.coordinator.store import RunStore, State
from tests.support.browser import Make
from tests.support.folders import FakeOperator
from tests.support.pages import wait_for
from tests.support.pages_of_a_run import stream_of


def test_who_is_present_missing_and_late(browser: Make) -> None:
    made = browser(10).login()
    made.client.get("/runs/heart-1")
    page = wait_for(made, "/runs/heart-1?part=live", "uploaded")
    assert "working" in page
    made.operator.presence = lambda run: dataclasses.replace(  # type: ignore[method-assign]
        FakeOperator().presence(run), absent=frozenset({"hospital-c"}), open_seconds=1000.0
    )
    page = wait_for(made, "/runs/heart-1?part=live", "late")
    assert "missing" in page


def test_a_node_in_trouble_stands_under_the_runs_name_and_the_page_is_told_at_once(browser: Make) -> None:
    made = browser(10).login()
    made.operator.troubles = (
        ("south", "disk_full", 2.5),
        ("hospital-b", "silent", 61.0),
        ("north", "<i>odd", 1.0),
        ("hospital-a", "restarted", 12.0),
    )
    page = wait_for(made, "/runs/heart-1?part=live", "south</strong> has no space on its disk, for 2.5 s")
    assert "hospital-b</strong> does not answer, for 1 min 1 s" in page
    assert "hospital-a</strong> was restarted, 12.0 s ago" in page
    assert "odd" not in page, "words of this program, not of whoever sent them"
    made.operator.troubles = ()
    log = made.state / "log.jsonl"
    line = {"time": "2026-11-18T10:00:00.000+00:00", "level": "info", "event": "run.stopped", "run": "heart-1"}

    def during() -> None:
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    portal = made.client.portal
    assert portal is not None
    assert "event: changed" in portal.call(stream_of, made, during)
    assert "no space" not in made.client.get("/runs/heart-1?part=live").text


def test_of_a_run_that_has_ended_no_node_is_in_trouble(browser: Make) -> None:
    made = browser(10).login()
    made.operator.troubles = (("south", "silent", 2.5),)
    wait_for(made, "/runs/heart-1?part=live", "does not answer")
    store = RunStore(made.state / "runs.sqlite")
    store.set_state(made.document.digest, State.failed, "stopped for good by the operator")
    store.close()
    assert "does not answer" not in made.client.get("/runs/heart-1?part=live").text
