"""`parley reproduce kinds`: `auto` beside a constant, no privacy and other methods, on data it was not set on.

One party, no own noise of the servers, δ = 1e-5. A run is a line of a file, which may be cut off anywhere. The constant
and the fit without privacy know the training records exactly: they are what a private run lies between. DP-SGD and
DP-GD have one setting for all kinds, as `auto` has: nobody may tune on private records for nothing.
"""

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from parley.algorithms.auto import RULES
from parley.algorithms.regularisers import Regulariser
from parley.learning.evaluation import evaluate
from parley.learning.models import Linear
from parley.learning.records import Records
from parley.models.registry import build_model
from parley.research.experiments.kinds_data import KINDS, Held, Kind
from parley.research.experiments.network_runs import Table
from parley.study.batch_runs import one_run, prepare
from parley.study.data import Sets, shares_of
from parley.study.study import Study

Floats = NDArray[np.float64]

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 3.0)
CONSTANT, NON_PRIVATE, AUTO, DIFFPRIVLIB = "constant", "non-private", f"auto {RULES}", "diffprivlib"
METHODS = (CONSTANT, NON_PRIVATE, AUTO, "dp-sgd", "dp-gd", DIFFPRIVLIB)
FIGURES = ("test_loss", "test_error", "auc")


def algorithm_of(method: str, records: int) -> dict[str, Any]:
    """As a study has it."""
    if method == "dp-sgd":
        return {"name": "dp-sgd", "clip_norm": 1.0, "batch": max(1, records // 10), "passes": 10.0, "step": 2.0}
    if method == "dp-gd":
        return {"name": "dp-gd", "clip_norm": 1.0, "steps_taken": 50, "step": 2.0}
    return {"name": "auto"}


def complete(
    kinds: Sequence[Kind],
    folder: Path | None,
    table: Table,
    seeds: int,
    methods: Sequence[str],
    epsilons: Sequence[float],
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Plays what is missing in the table, and says what cannot be played."""
    left_out = []
    for kind in kinds:
        held: Held | None = None
        if not kind.make and folder is None:
            left_out.append({"kind": kind.name, "method": None, "reason": "it needs a folder of data: give --data"})
            continue
        for method in methods:
            if reason := _not_for(method, kind):
                left_out.append({"kind": kind.name, "method": method, "reason": reason})
                continue
            exact = method in (CONSTANT, NON_PRIVATE)
            for epsilon in (None,) if exact else epsilons:
                wanted = [
                    seed
                    for seed in range(1 if exact else seeds)
                    if _cell(kind, method, epsilon, seed) not in _keys(table)
                ]
                if not wanted:
                    continue
                held = held or kind.held(folder)
                assert held is not None
                run = _runner(kind, held, method, epsilon)
                for seed in wanted:
                    began = time.process_time()
                    figures = run(seed)
                    line: dict[str, Any] = {
                        "cell": _cell(kind, method, epsilon, seed),
                        "kind": kind.name,
                        "role": kind.role,
                    }
                    line |= {"model": kind.model, "records": held.train.units, "columns": held.schema.dimension}
                    line |= {"method": method, "target_epsilon": epsilon, "seed": seed, **figures}
                    table.add({**line, "cpu_seconds": round(time.process_time() - began, 2)})
                    progress(f"{kind.name} {method} epsilon {epsilon} seed {seed}: loss {figures['test_loss']:.4f}")
    return left_out


def _keys(table: Table) -> set[str]:
    return {line["cell"] for line in table.lines}


def _cell(kind: Kind, method: str, epsilon: float | None, seed: int) -> str:
    """What a line is known by: with another schema or other settings it is another one."""
    settings = [kind.schema, kind.model, kind.most, method, epsilon, DELTA, algorithm_of(method, 1000)]
    return f"{kind.name}/{method}/{epsilon}/{seed}/{hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]}"


def _not_for(method: str, kind: Kind) -> str:
    """Why there is no such row; empty where there is one."""
    if method != DIFFPRIVLIB:
        return ""
    if kind.model != "logistic":
        return "its logistic regression is for two classes here"
    try:
        import diffprivlib.models  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        return f"diffprivlib cannot be loaded here ({error}): pip install diffprivlib scikit-learn==1.5.2"
    return ""


def _runner(kind: Kind, held: Held, method: str, epsilon: float | None) -> Callable[[int], dict[str, Any]]:
    model = build_model({"kind": kind.model}, held.schema)
    assert isinstance(model, Linear)

    def figures(theta: Floats) -> dict[str, Any]:
        quality = evaluate(model, held.test, theta, Regulariser(), held.schema.target.kind)
        return {"test_loss": quality.loss, "test_error": quality.error, "auc": quality.auc}

    if method in (CONSTANT, NON_PRIVATE):
        return lambda _: {**figures(exact(model, held.train, method == CONSTANT)), "epsilon": None}
    assert epsilon is not None
    if method == DIFFPRIVLIB:
        return lambda seed: {**figures(_diffprivlib(held, epsilon, seed)), "epsilon": epsilon}
    study = Study(
        held.schema, model=kind.model, algorithm=algorithm_of(method, held.train.units), epsilon=epsilon, delta=DELTA,
        own=0.0,
    )  # fmt: skip
    prepared = prepare(study, Sets({"pooled": held.train}, shares_of(1), held.test))

    def run(seed: int) -> dict[str, Any]:
        found = one_run(prepared, seed)
        return {name: found[name] for name in (*FIGURES, "epsilon", "rounds")}

    return run


def exact(model: Linear, records: Records, constant: bool) -> Floats:
    """The best model without privacy, with a standard normal prior; `constant`: of those that look at no feature."""
    block = records.rows.take(np.arange(len(records.rows)))
    outputs, count = model.residual.outputs, len(records.rows)
    free = np.zeros((model.features, outputs))
    free[-1:] = 1.0
    if not constant:
        free[:] = 1.0

    def value(theta: Floats) -> tuple[float, Floats]:
        point = theta * free.ravel()
        residuals = model.residual.residuals(model.scores(block, point), records.targets)
        gradient = block.combine(residuals).reshape(free.shape) * 2.0**-block.bits + point.reshape(free.shape)
        loss = float(model.losses(block, records.targets, point).sum()) + float(np.sum(point**2)) / 2
        return loss / count, (gradient * free).ravel() / count

    found = minimize(value, np.zeros(model.dimension), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x * free.ravel())


def _diffprivlib(held: Held, epsilon: float, seed: int) -> Floats:
    """Pure ε, by objective perturbation, of rows no longer than the schema allows."""
    from diffprivlib.models import LogisticRegression

    rows = held.train.rows.take(np.arange(len(held.train.rows))).dense() * 2.0**-held.train.rows.bits
    machine = LogisticRegression(epsilon=epsilon, data_norm=held.schema.feature_bound, random_state=seed)
    machine.fit(rows[:, :-1], held.train.targets)
    return np.append(machine.coef_.ravel(), machine.intercept_)


def rows_of(kinds: Sequence[Kind], table: Table) -> list[dict[str, Any]]:
    """Means and deviations of what is in the table: a row for each kind, method (of every version) and ε."""
    names = [kind.name for kind in kinds]
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for line in table.lines:
        if line["kind"] in names:
            groups.setdefault((line["kind"], line["method"], line["target_epsilon"] or 0.0), []).append(line)
    rows = []
    for (name, method, _), lines in sorted(groups.items(), key=lambda item: (names.index(item[0][0]), *item[0][1:])):
        first = lines[0]
        row = {
            what: first[what] for what in ("kind", "role", "model", "records", "columns", "method", "target_epsilon")
        }
        row |= {"kind": name, "method": method, "epsilon": first["epsilon"], "seeds": len(lines)}
        for figure in FIGURES:
            values = [line[figure] for line in lines if line[figure] is not None]
            row[figure] = statistics.fmean(values) if values else None
            row[f"{figure}_std"] = statistics.stdev(values) if len(values) > 1 else None
        rows.append({**row, "cpu_seconds": statistics.fmean(line["cpu_seconds"] for line in lines)})
    return rows


def chosen(names: Sequence[str]) -> list[Kind]:
    """All, or those of these names."""
    return [kind for kind in KINDS if not names or kind.name in names]
