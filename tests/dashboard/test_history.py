"""Rounds as the dashboard reads them from the books."""

import random
from dataclasses import replace

import pytest

from parley.algorithms.early_stop import evaluated_at
from parley.coordinator.store import RunStore
from parley.dashboard.history import Histories, History
from tests.support.browser import Make
from tests.support.folders import record


def test_rounds_are_read_once(browser: Make) -> None:
    made = browser(10)
    store = RunStore(made.state / "runs.sqlite", read_only=True)
    histories = Histories(store)
    first = histories.of(made.document.digest).records[0]
    assert histories.of(made.document.digest).records[0] is first
    store.close()


def a_history(rounds: int, of: int, tried_seconds: float, pause_after: int | None = None) -> History:
    """Rounds of a second each, and more where the public set is tried; half a second between two of them."""
    history, at = History(), 0.0
    for index in range(rounds):
        tried = evaluated_at(index, of)
        seconds = 1.0 + (tried_seconds if tried else 0.0)
        at += 0.5 + seconds + (10_000.0 if index == pause_after else 0.0)
        made = record(index, ["a", "b"], of, 0.0, random.Random(1))
        figures = {"loss": 0.3} if tried else {}
        history.add(replace(made, at=at, seconds=seconds, evaluation=figures))
    return history


@pytest.mark.parametrize("pause_after", [None, 120])
@pytest.mark.parametrize("tried_seconds", [0.0, 30.0])
def test_the_time_left_is_that_of_rounds_as_they_were_measured(pause_after: int | None, tried_seconds: float) -> None:
    of = 400
    whole, part = a_history(of, of, tried_seconds), a_history(150, of, tried_seconds, pause_after)
    truth = whole.records[-1].at - whole.records[149].at
    assert part.seconds_left(of) == pytest.approx(truth)
    assert whole.seconds_left(of) == 0.0
    assert History().seconds_left(of) is None
