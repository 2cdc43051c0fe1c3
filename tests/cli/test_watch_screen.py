"""`parley watch`: the same facts as the dashboard, in a terminal and in a file."""

import io
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from parley.cli.watch_screen import describe, follow_plainly, spark, view
from parley.coordinator.operator_client import Presence
from parley.coordinator.store import RoundRecord, RunRow, RunStore, State
from parley.dashboard.history import Histories
from tests.support.folders import coordinator_folder, write_run


@pytest.mark.parametrize("rounds", [0, 1, 10, 1000])
def test_the_terminal_shows_the_same_facts(tmp_path: Path, rounds: int) -> None:
    state, document = coordinator_folder(tmp_path, rounds)
    store = RunStore(state / "runs.sqlite", read_only=True)
    console = Console(width=120, record=True, file=io.StringIO())
    row = store.runs()[0]
    presence = Presence(rounds, frozenset({"hospital-a"}), frozenset(), 0.1, (("south", "unreachable", 4.2),))
    console.print(view(row, document, Histories(store).of(document.digest), presence))
    said = console.export_text()
    assert "heart-1" in said
    assert f"{rounds:,} of {document.releases:,}" in said
    assert "ε 1.78" in said
    assert "if a server lies" in said
    assert "south cannot be reached, for 4.2 s" in said
    if rounds:
        for word in (
            "left",
            "present",
            "waiting for",
            "hospital-b, hospital-c",
            "of noise",
            "auc",
            "waited",
            "shares up",
        ):
            assert word in said, word
    store.close()


class Followed:
    """A run that has ended by the time that somebody looks."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    def follow(self, digest: bytes) -> Iterator[tuple[RunRow, list[RoundRecord]]]:
        row = self.store.get(digest)
        assert row is not None
        yield row, self.store.history(digest)


def test_in_a_file_the_end_of_a_run_comes_after_its_rounds_and_no_line_is_broken(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, None)
    store = RunStore(state / "runs.sqlite")
    write_run(store, document, document.releases, State.finished, "40 rounds")
    console = Console(width=40, file=io.StringIO(), record=True)
    follow_plainly(console, Followed(store), document.digest)
    last, end = console.export_text().splitlines()
    assert last.startswith("round 40/40, 3 parties present; public test: loss") or "missing" in last
    assert "left" not in last
    assert end == "heart-1 is finished: 40 rounds"
    store.close()


def test_a_model_that_has_diverged_is_followed_to_its_end(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, 10)
    store = RunStore(state / "runs.sqlite", read_only=True)
    history = Histories(store).of(document.digest)
    history.add(replace(history.records[-1], round=10, evaluation={"loss": math.inf, "error": math.nan}))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view(store.runs()[0], document, history))
    said = console.export_text()
    assert "inf on the public set, best" in said
    assert "nan on the public set, best" in said
    assert "public test: loss inf, error nan" in describe(history, document)
    store.close()


def test_a_round_that_was_not_tried_says_what_the_last_one_was_worth(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, 300)
    store = RunStore(state / "runs.sqlite", read_only=True)
    history = Histories(store).of(document.digest)
    assert not history.records[-1].evaluation
    assert f"public test after round {history.evaluated[-1].round + 1}: loss" in describe(history, document)
    store.close()


def test_a_curve_in_one_line() -> None:
    assert spark([1.0]) == "▁"
    assert spark([1, 2, 3]) == "▁▄█" or spark([1, 2, 3]) == "▁▅█"
    assert len(spark(list(range(1000)))) == 24
