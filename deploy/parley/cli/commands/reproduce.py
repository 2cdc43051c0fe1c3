"""`parley reproduce`: the papers' experiments, regenerated beside the papers' figures. The servers add no own noise."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parley.cli.console import emit_json, fail, progress
from parley.cli.options import Json

app = typer.Typer(help="Regenerate the papers' tables beside their figures.", no_args_is_help=True)

Data = Annotated[Path, typer.Option(help="Folder that holds the data sets, one folder each.")]
Seeds = Annotated[int, typer.Option(min=1, help="Runs per row.")]
Only = Annotated[list[str] | None, typer.Option(help="Only this method; may be given several times.")]
Sets = Annotated[list[str] | None, typer.Option(help="Only this data set; may be given several times.")]
Results = Annotated[Path, typer.Option(help="File of finished runs, a line each; what is in it is not run again.")]
Fixed = Annotated[int, typer.Option(min=1, max=3, help="How many of the three seeds that were fixed beforehand.")]
Cells = Annotated[
    list[str] | None, typer.Option(help="Only cells whose name begins so, such as cnn/dp-sgd; several times.")
]
Figures = Annotated[Path | None, typer.Option(help="Folder that takes the figures of what is in --results.")]
Show = Annotated[bool, typer.Option("--show", help="Run nothing: show the table of what is in --results.")]


@app.callback()
def _group() -> None:
    """Regenerate the papers' tables beside their figures."""


@app.command()
def a9a(data: Data, seeds: Seeds = 10, method: Only = None, json_output: Json = False) -> None:
    """Table 2 of the core paper: nonconvex logistic regression on a9a.

    Example: parley reproduce a9a --data DATA --seeds 3
    """
    _nonconvex("a9a", data, seeds, method, json_output)


@app.command()
def ijcnn1(data: Data, seeds: Seeds = 10, method: Only = None, json_output: Json = False) -> None:
    """Table 3 of the core paper: nonconvex logistic regression on ijcnn1.

    Example: parley reproduce ijcnn1 --data DATA --seeds 3
    """
    _nonconvex("ijcnn1", data, seeds, method, json_output)


@app.command()
def convex(data: Data, seeds: Seeds = 5, only: Sets = None, method: Only = None, json_output: Json = False) -> None:
    """Table 3 of Zhang, Zheng, Mou and Wang, and the Adult column of table 4 of Yu and others.

    Example: parley reproduce convex --data DATA --seeds 2
    """
    from parley.research.experiments import convex as experiment

    for each in only or []:
        if each not in experiment.FILES:
            fail(f"no data set {each!r} here: use one of {', '.join(experiment.FILES)}")
    rows = experiment.reproduce(data, seeds, tuple(only or ()), tuple(method or ()), progress)
    if json_output:
        emit_json({"experiment": "convex", "rows": rows})
        return
    table = Table(title="convex: excess loss on the training set, or test error")
    columns = ["data", "strength", "method", "epsilon", "excess_loss", "paper_excess_loss", "test_error"]
    _fill(table, [*columns, "paper_test_error"], rows)


@app.command()
def adaptive(
    data: Data,
    seeds: Seeds = 5,
    method: Only = None,
    sigma: Annotated[
        list[float] | None, typer.Option(help="Only this noise scale; may be given several times.")
    ] = None,
    passes: Annotated[float, typer.Option(min=0.01, help="Passes over the data; the paper's are 100.")] = 100.0,
    json_output: Json = False,
) -> None:
    """Figure 1 of Zhou, Chen, Hong, Wu and Banerjee: a perceptron on MNIST at noise scales 2, 4 and 8.

    Example: parley reproduce adaptive --data DATA --seeds 1 --passes 10
    """
    from parley.research.experiments import adaptive as experiment

    for each in method or []:
        if each not in experiment.METHODS:
            fail(f"no method {each!r} here: use one of {', '.join(experiment.METHODS)}")
    for scale in sigma or []:
        if scale not in experiment.PAPER_EPSILON:
            fail(f"no noise scale {scale:g} here: use one of {', '.join(f'{s:g}' for s in experiment.PAPER_EPSILON)}")
    rows = experiment.reproduce(data, seeds, tuple(method or ()), tuple(sigma or ()), passes, progress)
    if json_output:
        emit_json({"experiment": "adaptive", "rows": rows})
        return
    table = Table(title="adaptive: test error on MNIST; the paper shows curves only")
    columns = ["method", "sigma", "epsilon", "paper_epsilon", "passes", "test_loss", "test_error", "test_error_std"]
    _fill(table, [*columns, "cpu_seconds"], rows)


@app.command()
def mnist(
    data: Data,
    results: Results = Path("mnist-runs.jsonl"),
    seeds: Fixed = 3,
    only: Cells = None,
    figures: Figures = None,
    show: Show = False,
    json_output: Json = False,
) -> None:
    """Section 6.2 of the core paper on MNIST: its CNN, and features with a linear model; figure 3.

    Hours in all. Every finished run is a line of --results, and the same command goes on where it was cut off.

    Example: parley reproduce mnist --data DATA --only cnn/dp-sgd --results mnist-runs.jsonl
    """
    _images("mnist", data, results, seeds, only, figures, show, json_output)


@app.command()
def cifar10(
    data: Data,
    results: Results = Path("cifar10-runs.jsonl"),
    seeds: Fixed = 3,
    only: Cells = None,
    figures: Figures = None,
    show: Show = False,
    json_output: Json = False,
) -> None:
    """Section 6.2 of the core paper on CIFAR-10: CNN5, CNN6, and features with a linear model; figures 4 and 5.

    Hours in all. Every finished run is a line of --results, and the same command goes on where it was cut off.

    Example: parley reproduce cifar10 --data DATA --only cnn5 --figures figures
    """
    _images("cifar10", data, results, seeds, only, figures, show, json_output)


@app.command()
def figures(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder that takes figure-1.png and figure-2.png, and their numbers.")],
    seeds: Seeds = 3,
    only: Sets = None,
    json_output: Json = False,
) -> None:
    """Figures 1 and 2 of the core paper as plots: objective and gradient norm against data passes.

    Example: parley reproduce figures --data DATA --out figures
    """
    from parley.research.experiments import figures as experiment

    for each in only or []:
        if each not in experiment.NUMBERS:
            fail(f"no figure of {each!r}: use one of {', '.join(experiment.NUMBERS)}")
    names = only or list(experiment.NUMBERS)
    found = {name: experiment.draw(name, data, out, seeds, progress) for name in names}
    if json_output:
        emit_json({"experiment": "figures", "figures": found})
        return
    for name in names:
        Console().print(f"{out / f'figure-{experiment.NUMBERS[name]}.png'}", highlight=False)


@app.command()
def kinds(
    data: Annotated[
        Path | None, typer.Option(help="Folder that holds the data sets; none: made-up kinds only.")
    ] = None,
    seeds: Seeds = 5,
    only: Annotated[list[str] | None, typer.Option(help="Only this kind of data; may be given several times.")] = None,
    method: Only = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Only this epsilon; may be given several times.")] = None,
    results: Results = Path("kinds-runs.jsonl"),
    show: Show = False,
    json_output: Json = False,
) -> None:
    """`auto` on kinds of data that it was not set on, beside a constant, no privacy and other methods.

    Every finished run is a line of --results, and the same command goes on where it was cut off.

    Example: parley reproduce kinds --only records-800 --seeds 2 --json
    """
    from parley.research.experiments import kinds as experiment
    from parley.research.experiments.kinds_data import KINDS
    from parley.research.experiments.network_runs import Table as Runs

    names = [kind.name for kind in KINDS]
    for each in only or []:
        if each not in names:
            fail(f"no kind {each!r} here: use one of {', '.join(names)}")
    for each in method or []:
        if each not in experiment.METHODS:
            fail(f"no method {each!r} here: use one of {', '.join(experiment.METHODS)}")
    for value in epsilon or []:
        if not value > 0:
            fail(f"epsilon is {value:g}: give a number above 0")
    chosen, table = experiment.chosen(tuple(only or ())), Runs.open(results)
    left_out = []
    if not show:
        methods, epsilons = tuple(method or experiment.METHODS), tuple(epsilon or experiment.EPSILONS)
        left_out = experiment.complete(chosen, data, table, seeds, methods, epsilons, progress)
    rows = experiment.rows_of(chosen, table)
    if json_output:
        emit_json({"experiment": "kinds", "rows": rows, "left_out": left_out})
        return
    columns = ["kind", "role", "method", "target_epsilon", "seeds", "test_loss", "test_loss_std", "test_error", "auc"]
    _fill(Table(title="kinds: test loss, and the deviation between seeds"), columns, rows)
    for row in left_out:
        Console().print(f"left out: {row['kind']} {row['method'] or ''}: {row['reason']}", highlight=False)


def _images(
    name: str,
    data: Path,
    results: Path,
    seeds: int,
    only: list[str] | None,
    figures: Path | None,
    show: bool,
    json_output: bool,
) -> None:
    from parley.research.experiments import network_cells, network_figures, network_runs

    chosen = network_cells.chosen_cells(name, tuple(only or ()))
    if not chosen:
        names = ", ".join(cell.name for cell in network_cells.cells_of(name)[:3])
        fail(f"no cell's name begins with {' or '.join(only or ())}: names are such as {names}")
    table = network_runs.Table.open(results)
    if not show:
        network_runs.complete(chosen, data, table, network_cells.SEEDS[:seeds], progress)
    drawn = network_figures.draw(chosen, table, figures) if figures else []
    rows = network_runs.rows_of(chosen, table)
    if not json_output:
        rows = [row if row["seeds"] > 1 else {**row, "test_error_std": None} for row in rows]  # one seed has none
    if json_output:
        emit_json({"experiment": name, "rows": rows, "figures": [str(each) for each in drawn]})
        return
    shown = Table(
        title=f"{name}: test error beside the paper's; {len(rows)} of {len(chosen)} cells have a result", padding=0
    )
    _fill(shown, ["cell", "seeds", "test_error", "test_error_std", "cpu_seconds", "paper_test_error"], rows)
    for path in drawn:
        Console().print(str(path), highlight=False)


def _nonconvex(name: str, data: Path, seeds: int, method: list[str] | None, json_output: bool) -> None:
    from parley.research.experiments import tables

    known = [row.method for row in tables.rows_of(tables.DATA_SETS[name])]
    for each in method or []:
        if each not in known:
            fail(f"no method {each!r} in this table: use one of {', '.join(known)}")
    _show(name, tables.reproduce(name, data, seeds, tuple(method or ()), progress), json_output)


def _show(name: str, rows: list[dict[str, Any]], json_output: bool) -> None:
    if json_output:
        emit_json({"experiment": name, "rows": rows})
        return
    table = Table(title=f"{name}: test loss beside the paper's; own noise of the servers 0, as in the paper")
    columns = [
        "method",
        "epsilon",
        "passes",
        "test_loss",
        "test_loss_std",
        "test_error",
        "cpu_seconds",
        "paper_test_loss",
    ]
    _fill(table, columns, rows)


def _fill(table: Table, columns: list[str], rows: list[dict[str, Any]]) -> None:
    for column in columns:
        # A name that is cut off is nobody's: two rows would be alike.
        table.add_column(
            column.replace("_", " "), justify="right", overflow="fold", no_wrap=column in ("cell", "method")
        )
    for row in rows:
        table.add_row(*(_shown(column, row.get(column)) for column in columns))
    Console().print(table)


def _shown(column: str, value: Any) -> str:
    if isinstance(value, float):
        return format(value, ".1f" if column.endswith("seconds") else ".4f")
    return "" if value is None else str(value)
