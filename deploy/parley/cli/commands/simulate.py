"""`parley simulate`: a whole federation in one process, for research; no server, no secrecy between parties."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parley.cli.console import emit_json, progress


def simulate(
    run: Annotated[Path, typer.Argument(help="RUN.toml: data, schema, model, algorithm, privacy, federation.")],
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, seeded 0, 1, 2 …")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the repetitions.")] = 1,
    json_output: Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")] = False,
) -> None:
    """Train as a federation would, in one process: the parties' and coordinator's code, the servers' noise law.

    Example: parley simulate RUN.toml --seeds 10 --workers 2 --json
    """
    from parley.research.central.runs import read_any_run_file, simulate_seeds
    from parley.study.batch_runs import mean_of

    setup = read_any_run_file(run)
    progress(f"{setup.algorithm['name']}: {seeds} seeds, {workers} processes; in one process nothing is secret")
    found = [_without_model(each) for each in simulate_seeds(setup, seeds, workers)]
    result = {"runs": found, "mean": mean_of(found)}
    if json_output:
        emit_json(result)
        return
    table = Table(title=f"{setup.algorithm['name']} at epsilon {setup.epsilon:g}, delta {setup.delta:g}")
    columns = ["seed", "rounds", "train_loss", "test_loss", "test_error", "auc", "seconds"]
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    mean: dict[str, Any] = {**mean_of(found), "seed": "mean"}
    for each in [*found, mean]:
        table.add_row(*(_shown(each.get(column)) for column in columns))
    Console().print(table)


def _without_model(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "theta"}


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
