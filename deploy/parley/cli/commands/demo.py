"""`parley demo`: a whole federation on this machine.

parley demo
parley demo --json
parley demo --study FILE     # another study, or this one changed
parley demo --keep          # leaves it running for a look around, until Ctrl-C
"""

import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from parley.cli.console import emit_json
from parley.cli.options import Audit, Json, Security

if TYPE_CHECKING:
    from parley.study.study import Study


def demo(
    output: Annotated[Path, typer.Option(help="Where the model, the reports and the study go.")] = Path("parley-demo"),
    study: Annotated[
        Path | None, typer.Option(help="Another study to run, such as a changed copy of parley-demo/study.toml.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(min=0.1, max=10.0, help="What the run may cost each patient, over the study's.")
    ] = None,
    security: Annotated[
        Security | None,
        typer.Option(help="covert: servers audit each other; malicious: no joint noise, each adds a whole sample."),
    ] = None,
    audit: Annotated[
        Audit | None, typer.Option(help="Under covert: the share of the noise that each server audits. [1/8]")
    ] = None,
    own: Annotated[
        float | None,
        typer.Option(help="Noise that each server adds by itself: 0, 0.25, 0.5 or 1 times the joint."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the nodes' folders, and their processes until Ctrl-C.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Watch four hospitals train a model of heart disease together, on this machine: under a minute.

    Every node is a process of its own, with its own key, policy and ledger. At the end it shows the model, how good it
    is beside each hospital alone and beside all records pooled, what the run cost every patient, and who could see
    what. The model, each node's signed report and the study are written to --output.

    Example: parley demo. Next: parley init my-federation
    """
    from parley.demo.demo import demo as demonstrate
    from parley.demo.recipe import STUDY
    from parley.demo.report import show_report
    from parley.study.document import read

    wanted = as_asked(STUDY if study is None else read(study), epsilon, security, own, audit)
    console = Console(stderr=True)
    with contextlib.closing(demonstrate(console, output, keep, wanted)) as running:  # type: ignore[type-var]
        report, company = next(running)
        show_report(console, report, company)
        if shutil.which("parley") is None:
            console.print(f"To type `parley` by itself: source {_activate()}")
        if json_output:
            emit_json(report.as_json())
        if keep:
            console.print(f"The federation is still running. Its nodes are in {report.folder}. Ctrl-C ends it.")
            signal.pause()


def as_asked(
    study: "Study", epsilon: float | None, security: Security | None, own: float | None, audit: Audit | None
) -> "Study":
    """The study with what the command line says instead."""
    given: dict[str, Any] = {"epsilon": epsilon, "own": own, "audit": None if audit is None else audit.value}
    if security is not None:  # own noise and audits are the usual ones of that security, unless they are given
        study = study.replaced(security=security.value, own=given.pop("own"), audit=given.pop("audit"))
    return study.replaced(**{name: value for name, value in given.items() if value is not None})


def _activate() -> Path:
    """As short as it can be typed from here."""
    script = Path(sys.prefix, "bin", "activate")
    near = Path(os.path.relpath(script))
    return near if ".." not in near.parts else script
