"""`parley demo`: a whole federation on this machine.

parley demo
parley demo --json
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
    output: Annotated[Path, typer.Option(help="Where the model and the report go.")] = Path("parley-demo"),
    epsilon: Annotated[float, typer.Option(min=0.1, max=10.0, help="What the run may cost each patient.")] = 1.5,
    security: Annotated[
        Security, typer.Option(help="malicious: no joint noise, every server adds a whole sample of its own.")
    ] = Security.semi_honest,
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
    what. The model and the report are written to --output.

    Example: parley demo. Next: parley init my-federation
    """
    from parley.demo.demo import demo as demonstrate
    from parley.demo.report import show_report
    from parley.mpc.parts import parts_of, usual_own

    parts = parts_of(security, usual_own(security) if own is None else own)

    console = Console(stderr=True)
    with contextlib.closing(demonstrate(console, output, keep, epsilon, parts)) as running:  # type: ignore[type-var]
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
