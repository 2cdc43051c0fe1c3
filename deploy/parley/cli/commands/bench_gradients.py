"""`parley bench gradients`: the exact private queries beside a plain NumPy gradient, in one run."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parley.cli.console import emit_json, progress
from parley.cli.options import Json

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def gradients(
    seconds: Annotated[float, typer.Option(min=0.1, help="Of measuring per model, query and batch.")] = 1.0,
    json_output: Json = False,
) -> None:
    """Measure records per second of clipped, exactly encoded queries beside plain gradients, on one thread.

    Example: parley bench gradients --seconds 0.5
    """
    # The linear algebra library reads these when NumPy is first imported, which has happened here: a fresh process.
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    progress("each query in turn with its plain gradient, the fastest of each")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        rows = alone.submit(_measure, seconds).result()
    if json_output:
        emit_json({"rows": rows})
        return
    table = Table(title="Gradients: thousand records per second")
    for column in ("model", "query", "batch", "private", "plain", "ratio"):
        table.add_column(column, justify="right")
    for row in rows:
        private, plain = row["records_per_second"] / 1e3, row["baseline_records_per_second"] / 1e3
        table.add_row(
            row["model"], row["query"], str(row["batch"]), f"{private:,.0f}", f"{plain:,.0f}", f"{row['ratio']:.2f}"
        )
    Console().print(table)


def _measure(seconds: float) -> list[dict[str, Any]]:
    from parley.bench.gradient_bench import measure

    return measure(seconds)
