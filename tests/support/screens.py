"""A terminal of the demonstration."""

import io
from pathlib import Path

from rich.console import Console

from parley.demo.report import Budget, PhaseCost, Report
from parley.demo.screen import Cast, Hospital
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


def console(terminal: bool, width: int = 80) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, legacy_windows=False), out


def report() -> Report:
    alone = tuple(Score(each.name, each.records, 0.77, 0.85) for each in CAST.hospitals)
    comparison = Comparison(Score("federated", 690, 0.82, 0.89), alone, Score("pooled", 690, 0.822, 0.899), 230)
    return Report(
        run="heart-disease",
        epsilon=1.0,
        delta=1e-5,
        security="semi-honest",
        own=0.5,
        audits="",
        audited=None,
        epsilon_if_a_server_lies=2.4,
        statement="The sentence for the data-protection officer.",
        rounds=20,
        comparison=comparison,
        budgets=tuple(Budget(each.name, 1.0, 4.0, 1e-5, 4e-5, 2.4) for each in CAST.hospitals),
        phases=(PhaseCost("certificates", 0.5), PhaseCost("rounds", 4.0, 1_234_567)),
        bytes_up_per_party=54_321,
        model=Path("model.npz"),
        report=Path("report.json"),
        study=Path("study.toml"),
        dashboard="http://127.0.0.1:7500",
    )
