"""What the pages say, with no, ten and ten thousand rounds, and that they say nothing else."""

import asyncio
import dataclasses
import json
import re
import time
from typing import Any

import pytest

from parley.coordinator.store import RunStore, State
from parley.dashboard.app import manifest_of
from parley.federation.names import Role
from parley.v1 import common_pb2
from tests.dashboard.conftest import Browser, Make
from tests.support.documents import manifest
from tests.support.folders import FakeOperator, write_run
from tests.support.pages import PAGES, wait_for


@pytest.mark.parametrize("rounds", [0, 10, 10_000])
def test_every_page_is_there_whatever_the_history(browser: Make, rounds: int) -> None:
    made = browser(rounds).login()
    for path in PAGES:
        made.client.get(path)  # caches, compiled templates
        begun = time.process_time()  # the machine may have other work
        answer = made.client.get(path)
        lasted = time.process_time() - begun
        assert answer.status_code == 200, path
        assert f"{rounds:,}" in answer.text, path
        assert lasted < 0.25, f"{path} took {lasted:.3f} s"
        assert len(answer.content) < 150_000, path


def test_one_round_is_not_spoken_of_as_many(browser: Make) -> None:
    made = browser(1).login()
    store = RunStore(made.state / "runs.sqlite")
    for name in made.document.identities(Role.aggregator):
        word = common_pb2.SignedEnd(aggregator=name.uri, openings=1).SerializeToString()
        store.put_end(made.document.digest, name.uri, word)
    store.set_state(made.document.digest, State.failed, "stopped for good by the operator")
    store.close()
    pages = "".join(made.client.get(path).text for path in PAGES)
    pages += wait_for(made, "/runs/heart-1/privacy", "over 1 opened sum<")
    assert "last 1 round," in pages
    assert ">round 1<" in pages
    assert "1 sum opened" in pages
    assert not re.search(r"\b1 (rounds|sums|opened sums|parameters)\b", pages)


def test_a_coordinator_without_runs_says_what_to_do(browser: Make) -> None:
    page = browser(None).login().client.get("/").text
    assert "No runs yet" in page
    assert "parley run RUN.toml" in page


def test_what_is_not_there_is_said_kindly(browser: Make) -> None:
    made = browser().login()
    for path in ("/runs/other", "/nothing"):
        answer = made.client.get(path)
        assert answer.status_code == 404
        assert "Not here" in answer.text or "Problem" in answer.text


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


def test_pools_say_how_full_they_are(browser: Make) -> None:
    made = browser(10).login()
    made.client.get("/runs/heart-1")
    page = wait_for(made, "/runs/heart-1?part=live", "812,300 of 1,048,576")
    assert "2,048 lost" in page


def test_the_outcome_of_a_run_that_failed_is_shown_and_escaped(browser: Make) -> None:
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")
    store.set_state(made.document.digest, State.failed, "<b>2 of 3</b> parties")
    page = made.client.get("/runs/heart-1").text
    assert "&lt;b&gt;2 of 3" in page
    assert "Stop…" not in page
    assert "failed" in page
    store.close()


def test_a_resumable_run_can_be_resumed(browser: Make) -> None:
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")
    store.set_state(made.document.digest, State.stopped, "stopped by the operator")
    store.close()
    assert ">Resume<" in made.client.get("/runs/heart-1").text
    assert made.client.post("/runs/heart-1/resume", data={"csrf": made.csrf()}).status_code == 303
    assert made.operator.asked == [("resume", "heart-1")]


async def _stream(made: Browser, during: Any) -> str:
    """What a page would hear while something happens."""
    pages, row = made.app.state.pages, made.app.state.wiring.store.runs()[0]

    class Request:
        def __init__(self) -> None:
            self.cookies = dict(made.client.cookies)

    said = ""
    async for piece in pages._follow(row, None, Request()):
        said += str(piece)
        if piece.startswith("retry"):
            await asyncio.to_thread(during)
        if "event: changed" in said and "event: line" in said:
            return said
    return said


def test_a_page_hears_of_new_rounds_and_lines(browser: Make) -> None:
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")

    def during() -> None:
        store.set_state(made.document.digest, State.stopped, "stopped by the operator")
        with (made.state / "log.jsonl").open("a") as file:
            line = {"time": "2026-11-18T10:00:00.000+00:00", "level": "info", "event": "run.stopped", "run": "heart-1"}
            file.write(json.dumps(line) + "\n")

    portal = made.client.portal
    assert portal is not None
    said: str = portal.call(_stream, made, during)
    assert "event: changed" in said
    assert "run.stopped" in said
    assert "<script" not in said
    store.close()


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
    assert "event: changed" in portal.call(_stream, made, during)
    assert "no space" not in made.client.get("/runs/heart-1?part=live").text


def test_of_a_run_that_has_ended_no_node_is_in_trouble(browser: Make) -> None:
    made = browser(10).login()
    made.operator.troubles = (("south", "silent", 2.5),)
    wait_for(made, "/runs/heart-1?part=live", "does not answer")
    store = RunStore(made.state / "runs.sqlite")
    store.set_state(made.document.digest, State.failed, "stopped for good by the operator")
    store.close()
    assert "does not answer" not in made.client.get("/runs/heart-1?part=live").text


def test_many_runs_are_listed_newest_first(browser: Make) -> None:
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")
    write_run(store, manifest(run="heart-2"), 3, State.finished, "40 rounds")
    store.close()
    page = made.client.get("/").text
    assert page.index("heart-2") < page.index("heart-1")
    assert manifest_of(made.document.canonical) is manifest_of(made.document.canonical)
