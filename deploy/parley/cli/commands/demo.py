"""`parley demo`: a whole federation on this machine.

parley demo
parley demo --json
parley demo --study FILE     # another study, or this one changed
parley demo --keep          # leaves it running for a look around, until Ctrl-C
"""

import contextlib
import io
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parley.cli.console import emit_json
from parley.cli.options import Json, Security


def demo(
    output: Annotated[Path, typer.Option(help="Where the model, the report and the study go.")] = Path("parley-demo"),
    study: Annotated[
        Path | None, typer.Option(help="Another study to run, such as a changed copy of parley-demo/study.toml.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(min=0.1, max=10.0, help="What the run may cost each patient, over the study's.")
    ] = None,
    security: Annotated[
        Security | None, typer.Option(help="malicious: no joint noise, every server adds a whole sample of its own.")
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
    what. The model, the report and the study are written to --output.

    Example: parley demo. Next: parley init my-federation
    """
    from parley.demo.demo import demo as demonstrate
    from parley.demo.recipe import STUDY
    from parley.demo.report import show_report
    from parley.study.document import read

    wanted = STUDY if study is None else read(study)
    given = {"epsilon": epsilon, "security": None if security is None else security.value, "own": own}
    if security is not None:
        wanted = wanted.replaced(own=None)  # the usual one of that security, unless it is given
    wanted = wanted.replaced(**{name: value for name, value in given.items() if value is not None})
    console = Console(stderr=True)
    with contextlib.closing(demonstrate(console, output, keep, wanted)) as running:  # type: ignore[type-var]
        report, company = next(running)
        plain = Console(file=io.StringIO(), width=100)
        show_report(plain, report, company)
        if report.report is not None and isinstance(plain.file, io.StringIO):
            report.report.write_text(plain.file.getvalue())
        show_report(console, report, company)
        if shutil.which("parley") is None:
            console.print(f"To type `parley` by itself: source {_activate()}")
        if json_output:
            emit_json(report.as_json())
        if keep:
            console.print(f"The federation is still running. Its nodes are in {report.folder}. Ctrl-C ends it.")
            signal.pause()


def _activate() -> Path:
    """As short as it can be typed from here."""
    script = Path(sys.prefix, "bin", "activate")
    near = Path(os.path.relpath(script))
    return near if ".." not in near.parts else script
