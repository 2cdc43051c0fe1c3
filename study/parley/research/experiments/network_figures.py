"""Figures 3 to 5 of the core paper as plots of a file of results: test error against rounds and seconds.

Panels (a) to (f): every method at the paper's three ε, against releases and against CPU seconds. Panels (g) and (h):
DDP-SRM over 1 to 16 parties at the smallest and the largest ε. Means over the seeds that are there; the paper's own
final errors are dashed lines. Needs matplotlib (the `plots` extra).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parley.research.experiments.network_cells import DISTRIBUTED, EPSILONS, PAPER, Cell
from parley.research.experiments.network_runs import Table

NUMBERS = {"cnn": 3, "cnn5": 4, "cnn6": 5}


def draw(cells: Sequence[Cell], table: Table, out: Path) -> list[Path]:
    """Writes figure-N.png and figure-N.json below `out`, for the networks of these cells that have a result."""
    import matplotlib

    matplotlib.use("Agg")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for network, number in NUMBERS.items():
        curves = [found for cell in cells if cell.network == network and (found := curve(cell, table))]
        if curves:
            stem = out / f"figure-{number}"
            stem.with_suffix(".json").write_text(json.dumps({"figure": number, "curves": curves}) + "\n")
            _plot(network, curves, stem.with_suffix(".png"))
            written.append(stem.with_suffix(".png"))
    return written


def curve(cell: Cell, table: Table) -> dict[str, Any] | None:
    """The mean over a cell's seeds; their marks are the same, for they have the same rounds."""
    lines = table.of(cell)
    if not lines:
        return None
    points = np.array([line["curve"] for line in lines], np.float64)
    rounds, seconds, errors = points.mean(axis=0).T
    return {
        "cell": cell.name,
        "method": cell.method,
        "epsilon": cell.epsilon,
        "parties": cell.parties,
        "own": cell.own,
        "seeds": len(lines),
        "rounds": [int(each) for each in rounds],
        "cpu_seconds": [round(float(each), 2) for each in seconds],
        "test_error": [float(each) for each in errors],
    }


def _plot(network: str, curves: list[dict[str, Any]], path: Path) -> None:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 4, figsize=(20, 8.5))
    central = [each for each in curves if each["parties"] == 1 and each["own"] == 0]
    for column, epsilon in enumerate(EPSILONS[network]):
        for panel, against in zip(panels[:, column], ("rounds", "cpu_seconds"), strict=True):
            for each in central:
                if each["epsilon"] == epsilon:
                    panel.plot(each[against], each["test_error"], marker=".", label=each["method"])
            for method in ("dp-srm", "dp-sgd"):
                panel.axhline(PAPER[network, method][column], ls="--", lw=0.8, color="grey")
                panel.annotate(f"paper, {method}", (0, PAPER[network, method][column]), fontsize=7, color="grey")
            _finish(panel, f"{network}, epsilon = {epsilon:g}", against.replace("_", " "))
    for panel, epsilon in zip(panels[:, 3], DISTRIBUTED[network], strict=True):
        for each in curves:
            if each["method"] == "dp-srm" and each["epsilon"] == epsilon and each["own"] == 0:
                panel.plot(each["rounds"], each["test_error"], marker=".", label=f"m = {each['parties']}")
        _finish(panel, f"{network}, DDP-SRM, epsilon = {epsilon:g}", "rounds")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _finish(panel: Any, title: str, label: str) -> None:
    panel.set(title=title, xlabel=label, ylabel="test error", yscale="log")
    panel.grid(alpha=0.3)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=8)
