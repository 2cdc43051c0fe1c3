"""What the pages say, with no, ten and ten thousand rounds, and that they say nothing else."""

import json
import re
import time

import pytest

from parley.coordinator.store import RunStore, State
from parley.dashboard.history import manifest_of
from parley.federation.names import Role
from parley.v1 import common_pb2
from tests.support.browser import Make
from tests.support.documents import manifest
from tests.support.folders import write_run
from tests.support.pages import PAGES, wait_for
from tests.support.pages_of_a_run import stream_of
from tests.support.pictures import examples, with_examples


@pytest.mark.parametrize("rounds", [0, 10, 10_000])
def test_every_page_is_there_whatever_the_history(browser: Make, rounds: int) -> None:
    made = browser(rounds).login()
    for path in PAGES:
        made.client.get(path)  # caches, compiled templates
        lasted = []
        for _ in range(3):  # other work on the machine makes a processor slower, never faster
            begun = time.process_time()
            answer = made.client.get(path)
            lasted.append(time.process_time() - begun)
        assert answer.status_code == 200, path
        assert f"{rounds:,}" in answer.text, path
        assert min(lasted) < 0.25, f"{path} took {min(lasted):.3f} s of a processor"
        assert len(answer.content) < 150_000, path


@pytest.mark.slow
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
    said: str = portal.call(stream_of, made, during)
    assert "event: changed" in said
    assert "run.stopped" in said
    assert "<script" not in said
    store.close()


def test_many_runs_are_listed_newest_first(browser: Make) -> None:
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")
    write_run(store, manifest(run="heart-2"), 3, State.finished, "40 rounds")
    store.close()
    page = made.client.get("/").text
    assert page.index("heart-2") < page.index("heart-1")
    assert manifest_of(made.document.canonical) is manifest_of(made.document.canonical)


def test_public_pictures_have_a_page_with_right_and_wrong_answers(browser: Make) -> None:
    made = browser(10)
    paths = ("/runs/heart-1/examples", "/runs/heart-1/examples/8/0.png")
    assert [made.client.get(path).status_code for path in paths] == [303, 303], "for who is signed in"
    made.login()
    assert [made.client.get(path).status_code for path in paths] == [404, 404]
    assert "Examples" not in made.client.get("/runs/heart-1").text
    with_examples(made.state, made.document.digest)
    assert 'href="/runs/heart-1/examples"' in made.client.get("/runs/heart-1").text
    page = made.client.get(paths[0]).text
    assert page.count("<img ") == page.count('alt="Row ') == 6
    assert "after round 9" in page
    assert page.index("Wrong answers") < page.index("is right") < page.index("Right answers")
    (view,) = [view for template, view in made.views if template == "examples.html"]
    assert [len(view.wrong), len(view.right)] == [3, 3]
    assert view.wrong[1].chance is None
    picture = made.client.get(paths[1])
    assert picture.headers["content-type"] == "image/png"
    assert picture.headers["content-security-policy"].startswith("default-src 'none'")
    assert picture.content == examples()[0].png
    for stale in ("7/0", "8/6", "8/-1", "8/x"):
        assert made.client.get(f"/runs/heart-1/examples/{stale}.png").status_code == 404
