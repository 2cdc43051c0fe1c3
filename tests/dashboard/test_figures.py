"""Figures of a run, as pages show them."""

import contextlib
import json
import sqlite3

import pytest

from parley.coordinator.store import RunStore, State
from parley.dashboard import figures
from parley.dashboard.history import Histories
from parley.federation.names import Role
from parley.v1 import common_pb2
from tests.support.browser import Browser, Make
from tests.support.documents import manifest
from tests.support.folders import FakeOperator
from tests.support.pages import wait_for


@pytest.mark.slow
def test_sums_that_were_opened_and_not_recorded_are_counted_as_spent(browser: Make) -> None:
    """A stop between an opening and its record: the aggregators' word is more than the coordinator's history."""
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")
    row, history = store.runs()[0], Histories(store).of(made.document.digest)
    aggregators = [name.uri for name in made.document.identities(Role.aggregator)]
    words = {uri: common_pb2.SignedEnd(aggregator=uri, openings=12).SerializeToString() for uri in aggregators}
    one = dict(list(words.items())[:1])
    assert figures.exposed(row, made.document, history, {}) == 11
    assert figures.exposed(row, made.document, history, one) == 11
    assert figures.exposed(row, made.document, history, words) == 12
    for uri, word in words.items():
        store.put_end(made.document.digest, uri, word)
    store.set_state(made.document.digest, State.failed, "stopped for good by the operator")
    store.close()
    wait_for(made, "/runs/heart-1/privacy", "over 12 opened sums")


@pytest.mark.slow
def test_before_a_run_has_started_nothing_is_spent(browser: Make) -> None:
    made = browser(0).login()
    with contextlib.closing(sqlite3.connect(made.state / "runs.sqlite")) as database, database:
        database.execute("UPDATE runs SET started = NULL, state = 'gathering'")
    page = wait_for(made, "/runs/heart-1?part=live", "chart-spent")
    spent = [view for template, view in made.views if template == "live.html"][-1].spent
    assert (spent.pld, spent.rdp, spent.upto) == (0.0, 0.0, 0)
    assert 0 < spent.pld_end < spent.rdp_end
    assert "“So far” covers" not in page
    assert (" RDP is the looser bound: both are true." in page) is (spent.rdp_end > spent.claimed)


def test_a_run_that_is_gathered_says_who_has_joined_who_is_missing_and_until_when(browser: Make) -> None:
    operator = FakeOperator()
    operator.gathering_until = 1_790_000_000.0
    made = browser(0, operator).login()
    missing = made.document.identities(Role.party)[1].uri
    with contextlib.closing(sqlite3.connect(made.state / "runs.sqlite")) as database, database:
        database.execute("UPDATE runs SET started = NULL, state = 'gathering'")
        database.execute("DELETE FROM members WHERE node = ?", (missing,))
    page = wait_for(made, "/runs/heart-1?part=live", "waiting for hospital-b until")
    assert '<time datetime="2026-09-21T14:13:20Z">2026-09-21 14:13 UTC</time>' in page
    assert '<p class="big">2<span> of 3</span></p>' in page


def test_while_a_node_is_in_trouble_no_time_is_promised(browser: Make) -> None:
    operator = FakeOperator()
    made = browser(10, operator).login()
    wait_for(made, "/runs/heart-1?part=live", "started")
    assert [view for _, view in made.views][-1].head.seconds_left is not None
    operator.troubles = (("south", "silent", 4.2),)
    page = wait_for(made, "/runs/heart-1?part=live", "does not answer")
    assert '<h2>Time left</h2><p class="big">–</p>' in page


@pytest.mark.slow
def test_wherever_epsilon_stands_delta_stands_beside_it(browser: Make) -> None:
    made = browser(10).login()
    assert "at δ 1e−5" in made.client.get("/").text
    privacy = wait_for(made, "/runs/heart-1/privacy", "by RDP, at δ 1e−5")
    cap = privacy.split("cap is ε = ")[1].split("</dd>")[0]
    assert cap.endswith(" at δ = 1e−5")


def test_presence_is_the_share_of_rounds() -> None:
    assert figures._strip([], 10, 0) == (1.0,) * 10
    assert figures._strip([9], 10, 0)[-1] == 0.0
    long = figures._strip(list(range(5000)), 10_000, 0)
    assert long[0] == 0.0
    assert long[-1] == 1.0
    assert abs(sum(long) / len(long) - 0.5) < 0.02


def test_a_party_stands_with_the_data_set_that_its_manifest_names() -> None:
    members = figures._members(manifest(**{"parties.1.data_set": "cardiology"}), {})
    assert [member.data_set for member in members[:3]] == ["", "cardiology", ""]
    assert {member.data_set for member in members[3:]} == {""}


def test_beside_the_curves_of_the_public_set_stands_a_table_of_all_that_was_tried(browser: Make) -> None:
    made = browser(300).login()
    page = made.client.get("/runs/heart-1").text
    (view,) = [view for template, view in made.views if template == "run.html"]
    tried = [each for each in RunStore(made.state / "runs.sqlite", read_only=True).history(view_digest(made))
             if each.evaluation]  # fmt: skip
    assert [each.round for each in view.evaluated] == [each.round for each in reversed(tried)]
    assert view.evaluated[0].figures == tuple(tried[-1].evaluation.values())
    table = page.split('aria-label="Public evaluation, figures"')[1].split("</table>")[0]
    assert table.count("<tr>") == 1 + len(tried)
    for title in ("Loss", "Error", "AUC"):
        assert f'<th scope="col" class="n">{title}</th>' in table
    assert f'<th scope="row">{tried[0].round + 1}</th>' in table


def test_a_model_that_has_diverged_has_no_figure_and_its_page_is_shown(browser: Make) -> None:
    made = browser(10).login()
    with contextlib.closing(sqlite3.connect(made.state / "runs.sqlite")) as database, database:
        (said,) = database.execute("SELECT record FROM history WHERE round = 9").fetchone()
        body = json.loads(said)
        body["evaluation"] = {"loss": float("inf"), "error": 0.9, "auc": float("nan")}
        database.execute("UPDATE history SET record = ? WHERE round = 9", (json.dumps(body),))
    assert made.client.get("/runs/heart-1").status_code == 200
    (view,) = [view for template, view in made.views if template == "run.html"]
    assert view.evaluated[0].figures == (None, 0.9, None)


def view_digest(made: Browser) -> bytes:
    return bytes(made.document.digest)
