"""What `parley demo` shows: who is who, the phases as they happen, and at the end what came of it and who saw what.

    with DemoScreen(console, cast) as screen:
        screen.phase("certificates")
        …
        screen.round(3, 20, 0.04, 4)
    show_report(console, report, cast)

On a terminal the phases are one live view; anywhere else they are plain lines. It knows no
process and no file: it is told everything by plain calls. The final report is `parley.demo.report`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

WINDOW = 10
"""Rounds whose mean duration predicts the time left."""
PLAIN_EVERY_SECONDS = 5.0
"""Between two lines about rounds where there is no terminal."""
PLAIN_SHARE = 5
"""At least so many lines about rounds, however fast they are."""

WHAT_HAPPENS = {
    "manifest": "the study is written down, its noise calculated",
    "certificates": "each node makes its own key and pins its peers' keys",
    "processes": "hospitals, A, B and the coordinator start, a process each",
    "verification": "every role computes the run's privacy for itself",
    "rounds": "hospitals send random-looking halves; A and B add noise",
    "end": "A and B sign the end; hospitals settle their budgets",
}
"""The phases of a run, in order, in a newcomer's words."""


@dataclass(frozen=True)
class Hospital:
    """A party, as people call it."""

    name: str
    title: str
    records: int


@dataclass(frozen=True)
class Cast:
    """Who takes part."""

    hospitals: tuple[Hospital, ...]
    aggregators: tuple[str, str]
    """Legal entities of A and B."""
    coordinator: str
    hold_out: int
    """Public records for scoring."""

    @property
    def nodes(self) -> int:
        return len(self.hospitals) + len(self.aggregators) + 1

    @property
    def records(self) -> int:
        return sum(hospital.records for hospital in self.hospitals)


@dataclass
class Phase:
    """One line of the view."""

    name: str
    detail: str
    started: float
    ended: float | None = None
    failed: bool = False


@dataclass
class Rounds:
    """Progress of the run's rounds."""

    done: int = 0
    total: int = 0
    present: int = 0
    recent: list[float] = field(default_factory=list)

    def add(self, done: int, total: int, seconds: float, present: int) -> None:
        self.done, self.total, self.present = done, total, present
        self.recent = [*self.recent, seconds][-WINDOW:]

    @property
    def seconds_left(self) -> float:
        return (self.total - self.done) * sum(self.recent) / max(1, len(self.recent))


class DemoScreen:
    """The view while the federation runs. Use as a context; calls may come from any one thread."""

    def __init__(self, console: Console, cast: Cast, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.cast, self.clock = console, cast, clock
        self.phases: list[Phase] = []
        self.rounds = Rounds()
        self.checked: list[str] = []
        self._last_plain = -PLAIN_EVERY_SECONDS
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(self, console=console, refresh_per_second=8) if console.is_terminal else None

    def __enter__(self) -> Self:
        introduce(self.console, self.cast)
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish("interrupted" if kind is KeyboardInterrupt else "failed" if error else "done")
        if self._live:
            self._live.stop()

    def phase(self, name: str, detail: str = "") -> None:
        """The phase before is over and this one begins; the known names explain themselves."""
        self._finish()
        self.phases.append(Phase(name, detail or WHAT_HAPPENS.get(name, ""), self.clock()))
        self._plain(f"{name}: {self.phases[-1].detail}")

    def detail(self, text: str) -> None:
        """What the current phase is at, or what came of it."""
        if self.phases:
            self.phases[-1].detail = text
            self._plain(f"{self.phases[-1].name}: {text}")

    def verified(self, name: str, epsilon: float, delta: float) -> None:
        """One role computed ε for itself and admitted the run."""
        self.checked.append(name)
        figures = f"epsilon {epsilon:.4g}, delta {delta:.2g}"
        self.detail(f"{len(self.checked)} of {self.cast.nodes} roles computed {figures}")

    def round(self, done: int, total: int, seconds: float, present: int) -> None:
        """`done` rounds of `total` are opened; the last took so many seconds with so many hospitals present."""
        self.rounds.add(done, total, seconds, present)
        now = self.clock()
        often = now - self._last_plain >= PLAIN_EVERY_SECONDS or done % max(1, total // PLAIN_SHARE) == 0
        if often or done == total:
            self._last_plain = now
            self._plain(f"rounds: {self._round_text()}")

    def note(self, text: str) -> None:
        """A line that stays, above the view."""
        self.console.print(text, highlight=False, markup=False)

    def seconds(self) -> dict[str, float]:
        """How long each phase that is over took."""
        return {phase.name: phase.ended - phase.started for phase in self.phases if phase.ended is not None}

    def _finish(self, how: str = "done") -> None:
        if self.phases and self.phases[-1].ended is None:
            phase = self.phases[-1]
            phase.ended, phase.failed = self.clock(), how != "done"
            self._plain(f"{phase.name}: {how} after {phase.ended - phase.started:.1f} s")

    def _plain(self, line: str) -> None:
        if self._live is None:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _round_text(self) -> str:
        rounds = self.rounds
        here = f"{rounds.present} of {len(self.cast.hospitals)} hospitals"
        left = "done" if rounds.done == rounds.total else f"about {duration(rounds.seconds_left)} left"
        return f"{rounds.done} of {rounds.total}, {here}, {left}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The live view: a line per phase, those to come in grey."""
        fancy = console.encoding.startswith("utf")
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=1)
        grid.add_column(width=12)
        grid.add_column(ratio=1)
        grid.add_column(width=7, justify="right", style="dim")
        begun = {phase.name for phase in self.phases}
        for phase in self.phases:
            over = phase.ended is not None
            good, bad = ("✓", "✗") if fancy else ("+", "x")
            mark = Text(bad, "bold red") if phase.failed else Text(good, "green") if over else self._spinner
            spent = (phase.ended if phase.ended is not None else self.clock()) - phase.started
            style = "bold red" if phase.failed else "" if over else "bold"
            grid.add_row(mark, Text(phase.name, style), Text(phase.detail), f"{spent:.1f} s")
            if phase.name == "rounds" and self.rounds.total:
                grid.add_row("", "", self._bar(), "")
        for name, detail in WHAT_HAPPENS.items():
            if name not in begun:
                grid.add_row("", Text(name, "dim"), Text(detail, "dim"), "")
        yield grid

    def _bar(self) -> Table:
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        row.add_row(ProgressBar(max(1, self.rounds.total), self.rounds.done), Text(self._round_text(), "cyan"))
        return row


def introduce(console: Console, cast: Cast) -> None:
    """Who holds data, where it may go, and what the run is for."""
    console.print()
    console.print(Text("One model of heart disease, from hospitals that show nobody their records", "bold"))
    console.print()
    console.print(diagram(cast, console.encoding.startswith("utf")))
    console.print()
    here = (
        "Here all of them run on this machine, on public records, to show what each can see. In real use each runs in"
    )
    console.print(Text(f"{here} an institution of its own; on one machine nothing is protected.", "dim"))
    console.print()


def diagram(cast: Cast, fancy: bool = True) -> Table:
    """Records stay on the left; to the right go halves that look random, then a sum with noise in it."""
    arrow = "─►" if fancy else "->"
    grid = Table.grid(padding=(0, 1))
    for _ in range(5):
        grid.add_column(vertical="middle", no_wrap=True)
    grid.add_row(
        Text("records stay with", "dim"),
        "",
        Text("half of each sum,\nwith noise", "dim"),
        "",
        Text("noised sums,\nthe model", "dim"),
    )
    title = max(len(each.title) for each in cast.hospitals)
    names = [f"{each.title:<{title}} {each.records:>4}" for each in cast.hospitals]
    servers = [f"{letter}: {name}" for letter, name in zip("AB", cast.aggregators, strict=True)]
    grid.add_row(
        Text(bracketed(names, fancy)), arrow, Text(bracketed(servers, fancy)), arrow, Text(cast.coordinator, "bold")
    )
    return grid


def bracketed(lines: list[str], fancy: bool) -> str:
    """Lines joined on their right."""
    across, top, middle, bottom = "─┐┤┘" if fancy else "-+++"
    width = max(len(line) for line in lines)
    ends = [top, *[middle] * (len(lines) - 2), bottom]
    return "\n".join(f"{line:<{width}} {across}{end}" for line, end in zip(lines, ends, strict=True))


def duration(seconds: float) -> str:
    """For people: 8 s, 3 min."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
