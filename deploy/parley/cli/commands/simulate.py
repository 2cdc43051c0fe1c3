"""`parley simulate`: a whole federation in one process, for research; no server, no secrecy between parties."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parley.cli.console import emit_json, progress
from parley.cli.options import Json

COLUMNS = {
    "seed": "", "rounds": ".0f", "train_loss": ".4f", "test_loss": ".4f", "test_error": ".4f", "auc": ".4f",
    "seconds": ".1f",
}  # fmt: skip
"""As the table has them, each with the format of its numbers; what no run has is left out."""


def simulate(
    run: Annotated[
        Path,
        typer.Argument(help="Data, schema, model, algorithm, privacy, federation.", metavar="FILE"),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, seeded 0, 1, 2 …")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the repetitions.")] = 1,
    json_output: Json = False,
) -> None:
    """Try a study in one process before you set up a federation. It protects nobody: for research only.

    The parties and the coordinator are the real code, and the noise follows the law of the servers' noise; but one
    process sees all records and all noise.

    Example: parley simulate RUN.toml --seeds 10 --workers 2
    """
    from parley.research.central.runs import read_any_run_file, simulate_seeds
    from parley.study.batch_runs import mean_of

    setup = read_any_run_file(run)
    progress("Simulation only: one process sees all records and all noise.")
    found = [_without_model(each) for each in simulate_seeds(setup, seeds, workers)]
    result = {"runs": found, "mean": mean_of(found)}
    if json_output:
        emit_json(result)
        return
    table = Table(title=f"{setup.algorithm['name']} at epsilon {setup.epsilon:g}, delta {setup.delta:g}")
    rows: list[dict[str, Any]] = [*found, {**mean_of(found), "seed": "mean"}]
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
