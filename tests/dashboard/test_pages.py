"""What the pages say, with no, ten and ten thousand rounds, and that they say nothing else."""

import asyncio
import contextlib
import dataclasses
import json
import re
import sqlite3
import time
from typing import Any

import pytest

from parley.coordinator.store import RoundRecord, RunStore, State
from parley.dashboard import charts, figures
from parley.dashboard.allowed import ALLOWED, NotAllowedError, check
from parley.dashboard.app import manifest_of
from parley.dashboard.history import Histories
from parley.dashboard.loglines import LogFile, matches, parsed
from parley.dashboard.views import LogLine, RunHead
from parley.federation.names import Role
from parley.privacy.ledger import Ledger
from parley.v1 import common_pb2
from tests.dashboard.conftest import Browser, Make
from tests.dashboard.folders import CLAIM, FakeOperator, write_run
from tests.federation.documents import manifest

PAGES = ("/", "/runs/heart-1", "/runs/heart-1?part=live", "/runs/heart-1/privacy", "/runs/heart-1/stop")


def wait_for(browser: Browser, path: str, text: str, seconds: float = 240.0) -> str:
    """A page, once what is computed apart has come."""
    until = time.monotonic() + seconds
    while True:
        page = str(browser.client.get(path).text)
        if text in page or time.monotonic() > until:
            assert text in page
            return page
        time.sleep(0.2)


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


def test_privacy_spent_is_counted_by_both_accountants_and_projected(browser: Make) -> None:
    made = browser(10).login()
    page = wait_for(made, "/runs/heart-1?part=live", "chart-spent")
    view = [view for template, view in made.views if template == "live.html"][-1]
    spent = view.spent
    assert 0 < spent.pld < spent.pld_end <= spent.claimed
    assert spent.pld < spent.rdp < spent.rdp_end
    assert spent.upto == 11  # the round under way may have been opened already
    assert spent.party == "hospital-a"
    assert "projected" in page


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


def test_before_a_run_has_started_nothing_is_spent(browser: Make) -> None:
    made = browser(0).login()
    with contextlib.closing(sqlite3.connect(made.state / "runs.sqlite")) as database, database:
        database.execute("UPDATE runs SET started = NULL, state = 'gathering'")
    page = wait_for(made, "/runs/heart-1?part=live", "chart-spent")
    spent = [view for template, view in made.views if template == "live.html"][-1].spent
    assert (spent.pld, spent.rdp, spent.upto) == (0.0, 0.0, 0)
    assert 0 < spent.pld_end < spent.rdp_end
    assert "“So far” covers" not in page


def test_the_privacy_page_states_everything_that_the_guarantee_rests_on(browser: Make) -> None:
    made = browser(10).login()
    page = wait_for(made, "/runs/heart-1/privacy", "Ledger head</dt><dd><code>")
    document = made.document
    plain = page.replace("<wbr>", "")
    for text in (
        str(CLAIM["statement"]), "ε = 1.78", "δ = 1e−5", "replace-one", "without replacement", "row", "0.00012",
        "3.1e−8", "Only the two aggregators together could break it", "North Trust", "South Foundation",
        "University Hospital",
        "epsilon 8.4 at delta 1e-05 if a server lies", "holds against an aggregator that follows the protocol",
        "each server adds 0.5 times as much of its own", "<th scope=\"col\">If a server lies</th>",
        "hospital-b", document.digest.hex(), document.mechanism.digest, "ε 2.28", "pilot",
    ):  # fmt: skip
        assert text in plain, text
    trail = json.loads((made.state / "trail.jsonl").read_text().splitlines()[-1])
    assert f"{trail['sequence']}:{trail['hash']}" in plain
    ledger = Ledger.open(made.state / "ledger.sqlite")
    assert str(ledger.verify()) in plain
    ledger.close()


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


def test_rounds_are_read_once(browser: Make) -> None:
    made = browser(10)
    store = RunStore(made.state / "runs.sqlite", read_only=True)
    histories = Histories(store)
    first = histories.of(made.document.digest).records[0]
    assert histories.of(made.document.digest).records[0] is first
    store.close()


# ------------------------------------------------------------ nothing un-noised


def walk(value: Any, found: set[tuple[str, str]]) -> None:
    """Every field of every view."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            found.add((type(value).__name__, field.name))
            walk(getattr(value, field.name), found)
    elif isinstance(value, tuple):
        for each in value:
            walk(each, found)
    else:
        assert value is None or type(value) in (bool, int, float, str), type(value)


@pytest.mark.parametrize("rounds", [0, 10])
def test_the_data_behind_every_element_is_on_the_list(browser: Make, rounds: int) -> None:
    made = browser(rounds).login()
    made.operator.troubles = (("south", "silent", 2.5),)
    for path in PAGES:
        made.client.get(path)
    wait_for(made, "/runs/heart-1?part=live", "chart-spent")
    wait_for(made, "/runs/heart-1?part=live", "south</strong> does not answer")
    wait_for(made, "/runs/heart-1/privacy", "Ledger head</dt><dd><code>")
    shown: set[tuple[str, str]] = set()
    for _, view in made.views:
        walk(view, shown)
    assert shown
    assert all(field in ALLOWED[name] for name, field in shown)
    if rounds:
        listed = {(name, field) for name, fields in ALLOWED.items() for field in fields} - {("Page", "csrf")}
        # What no page has shown here: around pages, and the end of a run.
        assert {name for name, _ in listed - shown} <= {"Page", "Ending"}


def test_a_field_that_is_not_on_the_list_is_never_rendered() -> None:
    @dataclasses.dataclass(frozen=True)
    class Totals:
        gradient_norm: float

    with pytest.raises(NotAllowedError, match="gradient_norm"):
        check(Totals(1.0))
    for value in (b"share", [1.0], {"a": 1}, float("nan"), "x" * 5000, RunHead):
        with pytest.raises(NotAllowedError):
            check(value)


def test_the_store_keeps_nothing_but_what_pages_may_show() -> None:
    """A field that somebody adds to the record of a round has to be argued for here."""
    assert {field.name for field in dataclasses.fields(RoundRecord)} == {
        "round", "at", "seconds", "waited_seconds", "agreed_seconds", "noised_seconds", "stepped_seconds",
        "contributors", "missing", "estimator_norm", "noise_norm", "bytes_down", "bytes_up", "evaluation",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        {"event": "round.opened", "loss": 0.31},
        {"event": "round.opened", "gradient": [1.0, 2.0]},
        {"event": "round.opened", "round": "0.73412"},
        {"event": "round.opened", "contributors": ["0.73412"]},
        {"event": "norm 0.73412"},
    ],
)
def test_a_log_line_with_something_private_in_it_shows_without_it(line: dict[str, Any]) -> None:
    found = parsed(json.dumps({"time": "2026-11-18T09:00:00.000+00:00", "level": "info", **line}).encode())
    assert found is None or found.fields == ()


def test_the_log_is_followed_over_its_rotation(browser: Make) -> None:
    made = browser(0)
    path = made.state / "log.jsonl"

    def write(event: str) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"time": "2026-11-18T09:00:00.000+00:00", "level": "info", "event": event}) + "\n")

    log = LogFile(made.state)
    log.refresh()
    write("a")
    log.refresh()
    path.rename(path.with_suffix(".1"))
    write("b")
    log.refresh()
    assert [line.event for line in log.since(0)][-2:] == ["a", "b"]
    assert log.since(log.count) == []


def test_the_filter_wants_every_word_and_at_least_the_level() -> None:
    line = LogLine("t", "warning", "round.short", (("missing", "hospital-b"),))
    assert matches(line, "short hospital-b", "warning")
    assert not matches(line, "short hospital-c", "")
    assert not matches(line, "", "error")


# ------------------------------------------------------------ streams and charts


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


def test_thinning_keeps_the_ends_and_the_extremes() -> None:
    points = [(float(x), float((x * 7919) % 1009)) for x in range(10_000)]
    points[6543] = (6543.0, 5000.0)
    kept = charts.thin(points)
    assert len(kept) <= charts.MOST_POINTS
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert (6543.0, 5000.0) in kept
    assert min(y for _, y in kept) == min(y for _, y in points)
    assert [x for x, _ in kept] == sorted({x for x, _ in kept})


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.33, 0.331), (0.0, 123456.0), (5.0, 5.0), (0.0, 1e-9), (-3.0, 4.0)]
)
def test_axes_hold_what_they_show(low: float, high: float) -> None:
    start, end = charts.nice_range(low, high)
    assert start <= low
    assert end >= high
    assert end - start < 4 * (high - low or 2 * abs(low))


def test_presence_is_the_share_of_rounds() -> None:
    assert figures._strip([], 10, 0) == (1.0,) * 10
    assert figures._strip([9], 10, 0)[-1] == 0.0
    long = figures._strip(list(range(5000)), 10_000, 0)
    assert long[0] == 0.0
    assert long[-1] == 1.0
    assert abs(sum(long) / len(long) - 0.5) < 0.02


def test_many_runs_are_listed_newest_first(browser: Make) -> None:
    made = browser(10).login()
    store = RunStore(made.state / "runs.sqlite")
    write_run(store, manifest(run="heart-2"), 3, State.finished, "40 rounds")
    store.close()
    page = made.client.get("/").text
    assert page.index("heart-2") < page.index("heart-1")
    assert manifest_of(made.document.canonical) is manifest_of(made.document.canonical)
