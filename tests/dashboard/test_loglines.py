"""The log beside a run: filtered, followed over its rotation, without anything private."""

import json
from typing import Any

import pytest

from parley.dashboard.loglines import LogFile, matches, parsed
from parley.dashboard.views import LogLine
from tests.support.browser import Make


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
