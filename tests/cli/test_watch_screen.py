"""`parley watch`: the same facts as the dashboard, in a terminal and in a file."""

import datetime as dt
import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from parley.cli.watch_lines import describe
from parley.cli.watch_screen import spark, view
from parley.coordinator.attendance import by_answers
from parley.coordinator.operator_client import Presence
from parley.coordinator.store import RunStore, State
from parley.dashboard.history import Histories
from tests.support.folders import coordinator_folder


@pytest.mark.parametrize("rounds", [0, 1, 10, 1000])
def test_the_terminal_shows_the_same_facts(tmp_path: Path, rounds: int) -> None:
    state, document = coordinator_folder(tmp_path, rounds)
    store = RunStore(state / "runs.sqlite", read_only=True)
    console = Console(width=120, record=True, file=io.StringIO())
    row = store.runs()[0]
    history = Histories(store).of(document.digest)
    presence = Presence(rounds, frozenset({"hospital-a"}), frozenset(), 0.1, (("south", "unreachable", 4.2),))
    console.print(view(row, document, history, presence))
    assert " left" not in console.export_text(), "nobody knows how long it takes while a server is silent"
    console.print(view(row, document, history, Presence(rounds, frozenset({"hospital-a"}), frozenset(), 0.1)))
    assert "south" not in console.export_text(clear=False)
    console.print(view(row, document, history, presence))
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


def test_while_a_run_is_gathered_the_screen_says_who_is_missing_and_a_dead_coordinator_is_named(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, 0)
    store = RunStore(state / "runs.sqlite")
    store.set_state(document.digest, State.gathering)
    answers = {node: said for node, said in store.answers(document.digest).items() if not node.endswith("hospital-b")}
    console = Console(width=120, record=True, file=io.StringIO())
    row, history = store.runs()[0], Histories(store).of(document.digest)
    until = dt.datetime.now().replace(hour=23, minute=59, second=0, microsecond=0).timestamp()
    console.print(view(row, document, history, None, by_answers(document, answers, until)))
    said = console.export_text()
    assert "2 of 3, waiting for hospital-b until 23:59" in said
    assert "the coordinator does not answer" in said
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
