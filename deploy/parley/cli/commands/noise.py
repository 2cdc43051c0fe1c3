"""`parley noise`: what is known of the noise's law."""

from typing import Annotated

import typer
from rich.console import Console

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail, progress
from parley.cli.options import Cover, Json, Precision

app = typer.Typer(help="Read the noise's exact law, and what its finite precision costs.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Read the noise's exact law, and what its finite precision costs."""


@app.command()
def certificate(
    samples: Annotated[float, typer.Option(help="Gaussians in all: parameters times releases. 1e9 is accepted.")],
    epsilon: Annotated[float, typer.Option(help="The claim's, under exact Gaussian noise.")],
    delta: Annotated[float, typer.Option(help="The claim's, under exact Gaussian noise.")],
    precision: Annotated[Precision | None, typer.Option(help="Without it: the cheapest within 1 %.")] = None,
    cover: Annotated[Cover, typer.Option(help="Of the ratio of uniforms.")] = Cover.strips,
    json_output: Json = False,
) -> None:  # fmt: skip
    """Bound what the sampler's finite precision adds to (epsilon, delta): enumerated and proved.

    Exit code 1 if it adds more than 1 % to either.

    Example: parley noise certificate --samples 1e9 --epsilon 1 --delta 1e-5
    """
    from parley.mpc.law import certify, choose_precision
    from parley.mpc.tables import check_precision

    if not samples >= 1 or samples != samples // 1 or samples > 1e15:
        fail(f"--samples {samples:g}: give a whole number of at least 1, such as 1e9")
    progress("enumerating every row, position and step of the tables")
    chosen = precision or choose_precision(int(samples), epsilon, delta, cover.value)
    names = check_precision(cover, chosen)
    result = certify(int(samples), epsilon, delta, *names)
    if json_output:
        emit_json(
            {
                "samples": result.samples,
                "epsilon": epsilon,
                "delta": delta,
                "precision": names[1],
                "cover": names[0],
                "epsilon_added": result.epsilon_added,
                "delta_added": result.delta_added,
                "largest": result.largest,
                "acceptance": result.acceptance,
                "second_moment": result.second_moment,
                "within_one_percent": result.within(),
                "statement": result.statement,
            }
        )
    else:
        Console().print(result.statement, highlight=False)
    if not result.within():
        raise SystemExit(EXIT_BAD_NEWS)
