"""Figures 1 and 2 of the core paper: objective and gradient norm on the training set against data passes.

The methods of the paper's figures with the tables' parameters, and `auto`; the iterate after each release, not the
result, at some 25 points per run, mean of the seeds. Training objectives are shown because the paper's figures show
them: in a federation nobody could draw them. Needs matplotlib (the `plots` extra).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parley.learning.evaluation import evaluate, gradient_norm
from parley.research.experiments import tables
from parley.study.batch_runs import Prepared, federation_of, prepare
from parley.study.data import sets_of

NUMBERS = {"a9a": 1, "ijcnn1": 2}
METHODS = ("rrpsgd", "dp-gd", "dp-agd", "dp-srm", "auto")
POINTS = 25
NORM_RECORDS = 8192
"""Gradient norms are of so many training records, evenly spaced: a figure needs no more."""


def draw(name: str, folder: Path, out: Path, seeds: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Writes figure-N.png and figure-N.json below `out`; returns the curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    out.mkdir(parents=True, exist_ok=True)
    data = tables.DATA_SETS[name]
    found = [
        curve(prepare(study, sets_of(study)), row.method, seeds, progress)
        for epsilon in tables.EPSILONS
        for row in tables.rows_of(data)
        if row.method in METHODS
        for study in [tables.study_of(name, folder, row, epsilon)]
    ]
    figure, panels = pyplot.subplots(1, 4, figsize=(18, 4.2))
    quantities = [("objective", "objective"), ("gradient_norm", "gradient norm")]
    shown = [(quantity, label, epsilon) for quantity, label in quantities for epsilon in tables.EPSILONS]
    for panel, (quantity, label, epsilon) in zip(panels, shown, strict=True):
        for each in found:
            if each["epsilon"] == epsilon:
                panel.plot(each["passes"], each[quantity], marker=".", label=each["method"])
        panel.set(xlabel="data passes", ylabel=label, title=f"{name}, epsilon = {epsilon}", xscale="log")
        if quantity == "gradient_norm":
            panel.set_yscale("log")
        panel.grid(alpha=0.3)
    panels[0].legend()
    figure.tight_layout()
    stem = out / f"figure-{NUMBERS[name]}"
    figure.savefig(stem.with_suffix(".png"), dpi=110)
    pyplot.close(figure)
    stem.with_suffix(".json").write_text(json.dumps({"figure": NUMBERS[name], "data": name, "curves": found}) + "\n")
    return found


def curve(prepared: Prepared, method: str, seeds: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """One method's mean curve at one ε."""
    study, pooled = prepared.study, prepared.sets.pooled
    model, rows = study.new_model(), len(pooled.rows)
    some = pooled.select(np.arange(0, rows, max(1, rows // NORM_RECORDS)))
    releases = prepared.mechanism.releases
    marks = {max(1, round(mark)) for mark in np.geomspace(1, releases, POINTS)} | {releases}
    seen: dict[int, list[tuple[float, float]]] = {}
    plan = None
    for seed in range(seeds):
        federation = federation_of(prepared, seed)
        plan = federation.plan

        def watch(made: int, theta: Any) -> None:
            if made in marks:
                quality = evaluate(model, pooled, theta, study.regulariser, study.schema.target.kind)
                norm = gradient_norm(model, some, theta, study.regulariser)
                seen.setdefault(made, []).append((quality.objective, norm))

        federation.run(watch)
    progress(f"{method} epsilon {study.epsilon}: curve of {seeds} seeds")
    at = sorted(seen)
    return {
        "method": method,
        "epsilon": study.epsilon,
        "seeds": seeds,
        "passes": [plan.passes(rows, made) if plan else 0.0 for made in at],
        "objective": [float(np.mean([value for value, _ in seen[made]])) for made in at],
        "gradient_norm": [float(np.mean([norm for _, norm in seen[made]])) for made in at],
    }
