"""`parley audit`: measure privacy from the outside. What it runs is in `deploy.privacy_audit`."""

from typing import Annotated

import typer

from deploy.console import fail

app = typer.Typer(help="Measure privacy from the outside.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Measure privacy from the outside."""


@app.command()
def privacy(
    runs: Annotated[int, typer.Option(help="Trainings on each of the two neighbours, per system.")] = 40000,
    delta: Annotated[float, typer.Option(help="The δ at which the claim and the bound are compared.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="Probability that the honest system's bound is right.")] = 0.95,
    units: Annotated[int, typer.Option(help="Records of the audited training.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
) -> None:
    """Bound ε from below for the honest system and for five faults."""
    try:
        from deploy.privacy_audit import run  # needs the `accounting` extra, which a bare installation lacks
    except ModuleNotFoundError as error:
        fail(f"{error.name} is missing: pip install 'parley-federation[accounting]'")
    run(runs, delta, confidence, units, json)
