"""The demonstration's screen says what happened, on a terminal and without one."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from parley.demo.report import Budget, PhaseCost, Report, show_report
from parley.demo.screen import WHAT_HAPPENS, Cast, DemoScreen, Hospital, bracketed, duration
from parley.research.comparison import Comparison, Score

CAST = Cast(
    (
        Hospital("cleveland", "Cleveland Clinic", 227),
        Hospital("hungarian", "Cardiology, Budapest", 221),
        Hospital("switzerland", "Zurich and Basel", 92),
        Hospital("va", "V.A. Long Beach", 150),
    ),
    ("North Trust", "South Foundation"),
    "Heart Study Group",
    230,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def console(terminal: bool, width: int = 80) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, legacy_windows=False), out


def play(screen: DemoScreen, clock: Clock) -> None:
    for name in WHAT_HAPPENS:
        screen.phase(name)
        clock.now += 2
        if name == "verification":
            for role in ("lead", "north", "south", *(each.name for each in CAST.hospitals)):
                screen.verified(role, 0.99996)
        if name == "rounds":
            for done in range(1, 21):
                clock.now += 0.5
                screen.round(done, 20, 0.5, 4)


def report() -> Report:
    alone = tuple(Score(each.name, each.records, 0.77, 0.85) for each in CAST.hospitals)
    comparison = Comparison(Score("federated", 690, 0.82, 0.89), alone, Score("pooled", 690, 0.822, 0.899), 230)
    return Report(
        run="heart-disease",
        epsilon=1.0,
        delta=1e-5,
        security="semi-honest",
        own=0.5,
        epsilon_if_a_server_lies=2.4,
        statement="The sentence for the data-protection officer.",
        rounds=20,
        comparison=comparison,
        budgets=tuple(Budget(each.name, 1.0, 4.0, 1e-5, 4e-5, 2.4) for each in CAST.hospitals),
        phases=(PhaseCost("certificates", 0.5), PhaseCost("rounds", 4.0, 1_234_567)),
        bytes_up_per_party=54_321,
        model=Path("model.npz"),
        report=Path("report.json"),
        dashboard="http://127.0.0.1:7500",
    )


def test_without_a_terminal_there_are_plain_lines_and_no_control_codes() -> None:
    screen_console, out = console(terminal=False)
    clock = Clock()
    with DemoScreen(screen_console, CAST, clock) as screen:
        play(screen, clock)
        screen.note("a note [with] brackets")
    text = out.getvalue()
    assert "\x1b" not in text
    assert "a note [with] brackets" in text
    for words in (
        "Cleveland Clinic      227",
        "A: North Trust",
        "B: South Foundation",
        "public records",
        "7 of 7 roles computed epsilon 1",
        "rounds: 20 of 20, 4 of 4 hospitals, done",
        "end: done after 2.0 s",
    ):
        assert words in text, words
    assert 4 <= len(re.findall(r"^rounds: \d", text, re.MULTILINE)) <= 8
    assert screen.seconds() == {
        "manifest": 2.0,
        "certificates": 2.0,
        "processes": 2.0,
        "verification": 2.0,
        "rounds": 12.0,
        "end": 2.0,
    }


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_the_last_view_has_every_phase_done_within_the_width(width: int) -> None:
    screen_console, _ = console(terminal=True, width=width)
    clock = Clock()
    with DemoScreen(screen_console, CAST, clock) as screen:
        play(screen, clock)
    shown, out = console(terminal=False, width=width)
    shown.print(screen)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert [line.split()[1] for line in lines if line.startswith("✓")] == list(WHAT_HAPPENS)
    # One line a phase and the bar: with the introduction it fits 24 lines.
    assert len(lines) == len(WHAT_HAPPENS) + 1


def test_time_left_is_the_recent_rounds_pace() -> None:
    screen_console, out = console(terminal=False)
    with DemoScreen(screen_console, CAST, Clock()) as screen:
        screen.phase("rounds")
        for done in range(1, 11):
            screen.round(done, 100, 60.0, 4)
        for done in range(11, 21):
            screen.round(done, 100, 0.5, 3)
    assert "rounds: 20 of 100, 3 of 4 hospitals, about 40 s left" in out.getvalue()
    assert [duration(each) for each in (0.1, 8.4, 89, 200)] == ["1 s", "8 s", "89 s", "3 min"]


def test_an_error_marks_the_phase_and_leaves_the_terminal_as_it_was() -> None:
    for terminal in (True, False):
        screen_console, out = console(terminal)
        screen = DemoScreen(screen_console, CAST, Clock())
        with pytest.raises(KeyboardInterrupt), screen:
            screen.phase("rounds")
            raise KeyboardInterrupt
        assert screen.phases[-1].failed
        assert ("✗" if terminal else "rounds: interrupted") in out.getvalue()
        if terminal:  # the cursor is shown again
            assert out.getvalue().rfind("\x1b[?25h") > out.getvalue().rfind("\x1b[?25l")


def test_a_terminal_that_knows_no_unicode_gets_ascii() -> None:
    raw = io.BytesIO()
    plain = Console(file=io.TextIOWrapper(raw, "ascii", write_through=True), force_terminal=True, width=80)
    with DemoScreen(plain, CAST, Clock()) as screen:
        screen.phase("rounds")
        screen.round(1, 2, 1.0, 4)
    show_report(plain, report(), CAST)
    assert b"Cleveland Clinic" in raw.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_tells_a_newcomer_everything_within_the_width(width: int) -> None:
    shown, out = console(terminal=False, width=width)
    show_report(shown, report(), CAST)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    for words in (
        "Who could see what",
        "the model after each of 20 rounds" if width > 100 else "after each of 20 rounds",
        "Cleveland Clinic alone 227 77.0% 0.850",
        "together, private: epsilon 1 690 82.0% 0.890",
        "no privacy 690 82.2% 0.899",
        "nothing they saw would have become more than 2.72 times as likely or as unlikely",
        "except with probability 1e-5.",
        "The sentence for the data-protection officer.",
        "1.00 / 2.40, 1e-05 3.00, 3e-05",
        "1,234,567",
        "54,321 bytes",
        "model.npz",
        "report.json",
        "http://127.0.0.1:7500",
    ):
        assert words in flat, words


@pytest.mark.parametrize("width", [80, 120])
def test_where_there_is_none_the_report_says_no_guarantee(width: int) -> None:
    shown, out = console(terminal=False, width=width)
    budgets = tuple(replace(each, spent_if_a_server_lies=None) for each in report().budgets)
    show_report(shown, replace(report(), budgets=budgets, epsilon_if_a_server_lies=None), CAST)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert text.count("no guarantee, 1e-05") == len(budgets)
    assert "there is no such guarantee" in " ".join(text.split())


def test_the_json_line_has_the_promised_fields() -> None:
    body = json.loads(json.dumps(report().as_json(), allow_nan=False))
    for name in ("run", "model", "report", "epsilon", "delta", "accuracy", "auc", "pooled_auc", "rounds"):
        assert body[name] is not None, name
    assert (body["seconds"], body["bytes"]) == (4.5, 1_234_567)
    budget = {"party": "cleveland", "spent": 1.0, "total": 4.0, "left": 3.0, "spent_if_a_server_lies": 2.4}
    assert body["budgets"][0].items() >= {**budget, "delta_spent": 1e-5, "delta_total": 4e-5}.items()


def test_a_bracket_closes_at_its_last_line() -> None:
    assert bracketed(["a", "bb", "c"], True) == "a  ─┐\nbb ─┤\nc  ─┘"
