"""`parley simulate`: a whole federation in one process; no server, no secrecy between parties.

parley simulate STUDY.toml
parley simulate STUDY.toml --seeds 10 --workers 2 -o model.npz --plot curve.png
"""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parley.cli.console import CommandError, emit_json, fail, progress
from parley.cli.options import Json, StudyFile

COLUMNS = {
    "seed": "", "rounds": ".0f", "train_loss": ".4f", "test_loss": ".4f", "test_error": ".4f", "auc": ".4f",
    "seconds": ".1f",
}  # fmt: skip
"""Of a central method's table, each with the format of its numbers; what no run has is left out."""


def simulate(
    study: StudyFile,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with fresh noise.")] = 5,
    repeatable: Annotated[
        bool, typer.Option("--repeatable", help="Seeds 0, 1, 2 … instead of fresh keys: the model protects nobody.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the repetitions.")] = 1,
    backend: Annotated[
        str, typer.Option(help="local: processes of this machine; ray: workers of a Ray cluster that is started here.")
    ] = "local",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the first seed's model, and its card.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the curve over rounds: .png or .svg.")] = None,
    public: Annotated[bool, typer.Option(help="Your word that all records are public: nothing is charged.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a model file that is there already.")] = False,
    json_output: Json = False,
) -> None:
    """Train as the federation would, in this one process, and see what privacy costs.

    The parties and the coordinator are the real code, and the noise follows the law of the servers' noise; but this
    process sees all records. Figures are for you alone: only a model that -o writes may be passed on. Without [data]
    test a fifth of the records is held out.

    Example: parley simulate study.toml --seeds 10 -o model.npz. Next: parley study plan study.toml
    """
    from parley.study.document import read

    _check_outputs(output, plot, force)
    wanted = read(study)
    progress("Simulation only: this one process sees all records.")
    if wanted.central:
        if backend != "local":
            fail(f"{wanted.algorithm['name']} is a central method for research: leave out --backend")
        if output or plot:
            fail(f"{wanted.algorithm['name']} is a central method for research: it writes no model and draws no curve")
        _central(wanted, seeds, repeatable, workers, json_output)
        return
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = wanted.simulate(
            seeds=seeds, repeatable=repeatable, workers=workers, public=public, backend=backend, progress=progress
        )
    for each in heard:
        progress(f"WARNING: {each.message}")
    if output:
        found.save(output)
        progress(f"{output}: the first seed's model")
    if plot:
        found.plot(plot)
        progress(f"{plot}: its curve")
    if json_output:
        emit_json(found.as_json())
    else:
        print(found)


def _check_outputs(output: Path | None, plot: Path | None, force: bool) -> None:
    """Before records are read and trained on: neither a model nor a picture takes the place of a file of records."""
    for path, endings in ((output, (".npz",)), (plot, (".png", ".svg"))):
        if path is not None and path.suffix not in endings:
            raise CommandError(f"{path.name} does not end in {' or '.join(endings)}: name the file by what it shall be")
    if output is None or not output.exists():
        return
    if not force:
        raise CommandError(f"{output} is there already: give another name, or --force")
    from parley.learning.model_archive import read_archive

    read_archive(output)  # an earlier model may be replaced, and nothing else: an .npz can hold records


def _central(wanted: Any, seeds: int, repeatable: bool, workers: int, json_output: bool) -> None:
    """Of a method whose noise is one party's own: a table of its runs."""
    from parley.research.central.runs import simulate as simulate_central

    found = simulate_central(wanted, seeds, repeatable, workers)
    runs, plain = [_without_model(each) for each in found["runs"]], _without_model(found["without_privacy"])
    if json_output:
        emit_json({"runs": runs, "mean": found["mean"], "without_privacy": plain})
        return
    table = Table(title=f"{wanted.algorithm['name']} at epsilon {wanted.epsilon:g}, delta {wanted.delta:g}")
    rows: list[dict[str, Any]] = [
        *runs,
        {**found["mean"], "seed": "mean"},
        {**plain, "seed": "without privacy"},
    ]
    columns = [column for column in COLUMNS if any(row.get(column) is not None for row in rows)]
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_shown(column, row.get(column)) for column in columns))
    Console().print(table)


def _without_model(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "theta"}


def _shown(column: str, value: object) -> str:
    return "" if value is None else format(value, COLUMNS[column] if isinstance(value, float) else "")
