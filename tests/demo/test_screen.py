"""The demonstration's screen says what happened, on a terminal and without one."""

import io
import re

import pytest
from rich.console import Console

from parley.demo.report import show_report
from parley.demo.screen import WHAT_HAPPENS, DemoScreen, bracketed, duration
from tests.support.screens import CAST, console, report


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def play(screen: DemoScreen, clock: Clock) -> None:
    for name in WHAT_HAPPENS:
        screen.phase(name)
        clock.now += 2
        if name == "verification":
            for role in ("lead", "north", "south", *(each.name for each in CAST.hospitals)):
                screen.verified(role, 0.99996, 1e-5)
        if name == "rounds":
            for done in range(1, 21):
                clock.now += 0.5
                screen.round(done, 20, 0.5, 4)


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
        "7 of 7 roles computed epsilon 1, delta 1e-05",
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


def test_a_bracket_closes_at_its_last_line() -> None:
    assert bracketed(["a", "bb", "c"], True) == "a  ─┐\nbb ─┤\nc  ─┘"
