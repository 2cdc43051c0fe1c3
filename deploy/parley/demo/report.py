"""The last screen of `parley demo`: what came of the run, who could see what, what it cost, and where to look next.

What a newcomer should read first stands last, where the terminal stops scrolling.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from parley.demo.screen import Cast
from parley.research.comparison import Comparison, Score


@dataclass(frozen=True)
class Budget:
    """One hospital's privacy budget over all runs on its records."""

    party: str
    spent: float
    """ε so far, this run included"""
    total: float
    """ε that the hospital allows"""
    delta_spent: float
    delta_total: float
    spent_if_a_server_lies: float | None
    """ε₂ so far; None: no guarantee then"""

    @property
    def left(self) -> float:
        return max(0.0, self.total - self.spent)

    @property
    def delta_left(self) -> float:
        return max(0.0, self.delta_total - self.delta_spent)


@dataclass(frozen=True)
class PhaseCost:
    """What a phase took."""

    name: str
    seconds: float
    bytes: int | None = None
    """Over all connections; None where nothing went over the wire or nobody counted."""


@dataclass(frozen=True)
class Report:
    """Everything that the last screen and `--json` show."""

    run: str
    epsilon: float
    delta: float
    security: str
    own: float
    audits: str
    """What the servers' audits of each other are worth; empty where there are none."""
    audited: tuple[int, int] | None
    """Batches of noise that A audited of B's, and B of A's, while the demonstration ran; where there are such."""
    epsilon_if_a_server_lies: float | None
    """ε₂ at the same δ; None: no guarantee if a server lies"""
    statement: str
    """The guarantee in one sentence (`parley.federation.meaning.Meaning.statement`)."""
    rounds: int
    comparison: Comparison
    budgets: tuple[Budget, ...]
    phases: tuple[PhaseCost, ...]
    bytes_up_per_party: int
    """What left one hospital for A and B together in the whole run, the largest of them."""
    model: Path
    report: Path | None = None
    study: Path | None = None
    """What was run, to change and to run again."""
    folder: Path | None = None
    """Where the federation's files are, if they are kept."""
    dashboard: str | None = None

    @property
    def seconds(self) -> float:
        return math.fsum(phase.seconds for phase in self.phases)

    @property
    def bytes(self) -> int:
        return sum(phase.bytes or 0 for phase in self.phases)

    def as_json(self) -> dict[str, Any]:
        """The line of `parley demo --json`."""
        return {
            "run": self.run,
            "model": str(self.model),
            "report": str(self.report) if self.report else None,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "security": self.security,
            "own": self.own,
            "audits": self.audits,
            "audited_batches": list(self.audited) if self.audited is not None else None,
            "epsilon_if_a_server_lies": self.epsilon_if_a_server_lies,
            **self.comparison.as_json(),
            "rounds": self.rounds,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "bytes_up_per_party": self.bytes_up_per_party,
            "statement": self.statement,
            "phases": [{"name": each.name, "seconds": each.seconds, "bytes": each.bytes} for each in self.phases],
            "budgets": [
                {
                    "party": each.party,
                    "spent": each.spent,
                    "total": each.total,
                    "left": each.left,
                    "delta_spent": each.delta_spent,
                    "delta_total": each.delta_total,
                    "delta_left": each.delta_left,
                    "spent_if_a_server_lies": each.spent_if_a_server_lies,
                }
                for each in self.budgets
            ],
            "dashboard": self.dashboard,
            "folder": str(self.folder) if self.folder else None,
        }


def show_report(console: Console, report: Report, cast: Cast) -> None:
    """Print it, plain or in colour as the console can."""
    for heading, body in (
        ("Who could see what", sights(report, cast)),
        ("What it cost", costs(report, cast)),
        ("How good the model is", results(report, cast)),
        ("What is guaranteed", guarantee(report, cast)),
        ("Where to look", places(report)),
    ):
        console.print()
        console.print(Text(heading, "bold cyan"))
        console.print(body, highlight=False)
    if report.dashboard is not None:
        console.print(Text("dashboard, by an address that signs in", "dim"))
        console.print(report.dashboard, highlight=False, markup=False, soft_wrap=True)  # one line, to be copied
    console.print()


def sights(report: Report, cast: Cast) -> Table:
    """Every role, what reached it and what never did."""
    table = _table()
    table.add_column("who", no_wrap=True)
    table.add_column("saw", ratio=5)
    table.add_column("never saw", ratio=4)
    table.add_row(
        "each hospital",
        f"its own records; the model after each of {report.rounds} rounds",
        "any number of another hospital",
    )
    table.add_row(
        "A and B, each",
        "one random-looking half per hospital and round; who took part",
        "a record, a gradient, a sum, the noise" + (", except its own part" if report.own else ""),
    )
    table.add_row(
        "coordinator", f"{report.rounds} noised sums, nothing before the noise", "any number of a single hospital"
    )
    return table


def costs(report: Report, cast: Cast) -> Group:
    """Seconds and bytes by phase, then the budgets that are left: side by side they are too wide for 80 columns."""
    phases = _table()
    phases.add_column("phase")
    phases.add_column("seconds", justify="right")
    phases.add_column("bytes", justify="right")
    for phase in report.phases:
        phases.add_row(phase.name, f"{phase.seconds:.1f}", "" if phase.bytes is None else f"{phase.bytes:,}")
    phases.add_row(Text("total", "bold"), f"{report.seconds:.1f}", f"{report.bytes:,}")
    titles = {hospital.name: hospital.title for hospital in cast.hospitals}
    budgets = _table()
    budgets.add_column("budget")
    budgets.add_column("epsilon / if a\nserver lies, delta", justify="right", no_wrap=True)
    budgets.add_column("left", justify="right", no_wrap=True)
    for budget in report.budgets:
        lying = budget.spent_if_a_server_lies
        worst = "\nno guarantee" if lying is None else f"{lying:.2f}"
        spent = f"{budget.spent:.2f} / {worst}, {budget.delta_spent:.0e}"
        budgets.add_row(titles.get(budget.party, budget.party), spent, f"{budget.left:.2f}, {budget.delta_left:.0e}")
    return Group(phases, Text(), budgets)


def results(report: Report, cast: Cast) -> Table:
    """The federated model beside what each hospital could do alone and what pooling the records would give."""
    table = _table()
    table.add_column(f"scored on {cast.hold_out} public patients")
    for name in ("records", "accuracy", "AUC"):
        table.add_column(name, justify="right")

    def add(title: str, score: Score, style: str = "") -> None:
        row = (title, str(score.records), f"{score.accuracy:.1%}", f"{score.auc:.3f}")
        table.add_row(*(Text(cell, style) for cell in row))

    titles = {hospital.name: hospital.title for hospital in cast.hospitals}
    for alone in report.comparison.alone:
        add(f"{titles.get(alone.name, alone.name)} alone", alone)
    add(
        f"together, private: epsilon {report.epsilon:.3g}, delta {_small(report.delta)}",
        report.comparison.federated,
        "bold green",
    )
    add("records pooled in one place, no privacy", report.comparison.pooled, "dim")
    return table


def _small(delta: float) -> str:
    return f"{delta:.0e}".replace("e-0", "e-")


def guarantee(report: Report, cast: Cast) -> Text:
    """In words, then the sentence for the data-protection officer."""
    often = _small(report.delta)
    how = "" if report.security == "malicious" else " that follows the protocol"
    text = Text(
        f"Take everything that the coordinator, one aggregator{how} and all other hospitals see together. If any one "
        f"patient's record had been different, nothing they saw would have become more than {_times(report.epsilon)} "
        f"times as likely or as unlikely, except with probability {often}. "
    )
    if report.security == "malicious":
        text.append("This holds whatever the aggregator does. The model itself is not protected against it.\n")
    elif report.epsilon_if_a_server_lies is None:
        text.append("If the aggregator does not follow the protocol, there is no such guarantee.\n")
    else:
        text.append(
            f"If that aggregator does not follow the protocol: {_times(report.epsilon_if_a_server_lies)} times "
            f"(epsilon {report.epsilon_if_a_server_lies:.3g}).\n"
        )
    if report.audits:
        text.append(f"{report.audits}\n")
    if report.audited is not None:
        by_a, by_b = (f"{count:,}" if count else "none" for count in report.audited)
        text.append(f"While this ran, A audited {by_a} of B's batches of noise, B {by_b} of A's. Nobody was caught.\n")
    return text.append(report.statement, "dim")


def _times(epsilon: float) -> str:
    factor = math.exp(epsilon)
    return f"{factor:.3g}" if factor < 1e4 else f"{factor:.1e}"


def places(report: Report) -> Table:
    """Files and addresses."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    grid.add_row(
        "what left a hospital",
        f"at most {report.bytes_up_per_party:,} bytes to A and B together; each half looks random",
    )
    grid.add_row("model", str(report.model))
    for name, value in (("report", report.report), ("study", report.study), ("federation", report.folder)):
        if value is not None:
            grid.add_row(name, str(value))
    return grid


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="dim")
