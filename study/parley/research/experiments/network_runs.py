"""Runs of the networks' cells through parley's own parties, lattices and noise, a line of a file for each.

A run is `parley.study.simulation.Federation`: the party's exact integers and the servers' law of noise. The file can
be cut off anywhere and goes on where it ended; a line of other settings than the cell's of today counts for nothing.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Plan
from parley.algorithms.registry import build_algorithm, setting_of
from parley.algorithms.regularisers import Regulariser
from parley.learning.evaluation import Quality, evaluate
from parley.learning.holding import described
from parley.learning.models import Model
from parley.learning.records import Records, encode
from parley.learning.schema import Schema
from parley.models.extractor_spec import run_here
from parley.models.registry import open_model
from parley.research.experiments.images import pictures
from parley.research.experiments.network_cells import DELTA, PATCHES, RECORDS, Cell
from parley.research.experiments.network_noise import noise_for
from parley.study.pace import Pace, Say
from parley.study.simulation import Calibrated, Federation, split

Floats = NDArray[np.float64]
POINTS = 8
"""Of a curve."""
ROWS_AT_ONCE = 1024


def silent(_: str) -> None:
    """Where nobody waits."""


@dataclass(frozen=True)
class Held:
    """Records and model of a network, which its cells share."""

    schema: Schema
    train: Records
    test: Records
    model: Model


@dataclass
class Table:
    """A file of results, and what is in it."""

    path: Path
    lines: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> "Table":
        """What was cut off in mid-line is left out, and the file ends with whole lines."""
        text = path.read_text() if path.is_file() else ""
        whole, cut = text.rpartition("\n")[::2]
        if cut:
            path.write_text(whole + "\n" if whole else "")
        return cls(path, [json.loads(line) for line in whole.splitlines()])

    def add(self, line: dict[str, Any]) -> None:
        """On disk before the next run."""
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.lines.append(line)

    def of(self, cell: Cell) -> list[dict[str, Any]]:
        """The cell's results with today's settings."""
        return [line for line in self.lines if line["settings"] == cell.settings]


def complete(
    cells: Sequence[Cell], folder: Path, table: Table, seeds: Sequence[int], progress: Callable[[str], None]
) -> None:
    """Plays what is missing: of what was asked for every cell once, then every one again, and so on; then the rest."""
    held: dict[str, Held] = {}
    groups = list(dict.fromkeys((cell.must, cell.own if cell.must else 0.0) for cell in cells))
    for group in groups:
        some = [cell for cell in cells if (cell.must, cell.own if cell.must else 0.0) == group]
        for seed in seeds:
            for cell in some:
                if any(line["seed"] == seed for line in table.of(cell)):
                    continue
                if cell.network not in held:
                    progress(f"{cell.network}: reading the records and what the model sees of them")
                    held[cell.network] = held_of(cell, folder)
                line = play(cell, held[cell.network], seed, progress)
                table.add(line)
                progress(f"{cell.name} seed {seed}: error {line['test_error']:.4f}, {line['cpu_seconds']:.0f} CPU s")


def held_of(cell: Cell, folder: Path) -> Held:
    """Read, transformed, encoded; the module imported and checked in this process."""
    layout, schema = described(cell.schema)
    ours = run_here((PATCHES,))
    train, test = (encode(part, schema, layout, extract=ours) for part in pictures(cell.data, folder))
    return Held(schema, train, test, open_model(cell.model, schema))


def play(cell: Cell, held: Held, seed: int, progress: Say = silent) -> dict[str, Any]:
    """One run's line."""
    sizes = {name: part.units for name, part in split(held.train, cell.parties, 0).items()}
    plan = planned(cell, held)[1]
    calibrated, admitted = noise_for(plan, sizes, held.model.dimension, cell.epsilon, cell.own)
    return {**told(cell, held, calibrated, admitted), "seed": seed, **one(cell, held, calibrated, seed, progress)}


def planned(cell: Cell, held: Held) -> tuple[Algorithm, Plan]:
    """A fresh algorithm that has planned; fewer records than the paper's, as tests have, keep rounds and rate."""
    records, body = held.train.units, cell.algorithm
    if "batch" in body and records != RECORDS[cell.data]:
        body["batch"] = max(1, round(body["batch"] * records / RECORDS[cell.data]))
    algorithm = build_algorithm(body, Regulariser())
    kind = str(cell.model["kind"])
    return algorithm, algorithm.plan(setting_of(records, held.model, cell.epsilon, DELTA, held.schema, kind))


def one(cell: Cell, held: Held, calibrated: Calibrated, seed: int, progress: Say = silent) -> dict[str, Any]:
    """Error on the test set, and on the way there; the clock stands still while it is measured."""
    algorithm, plan = planned(cell, held)
    federation = Federation(
        algorithm, plan, held.model, split(held.train, cell.parties, seed), calibrated.mechanism, seed,
        precision=calibrated.precision, parts=calibrated.parts,
    )  # fmt: skip
    marks = {max(1, round(mark)) for mark in np.linspace(0, calibrated.mechanism.releases, POINTS + 1)[1:]}
    curve: list[tuple[int, float, float]] = []
    began, aside = time.perf_counter(), 0.0
    cpu, cpu_aside = time.process_time(), 0.0
    pace = Pace(progress, f"{cell.name} seed {seed}", calibrated.mechanism.releases)

    def watch(made: int, theta: Floats) -> None:
        nonlocal aside, cpu_aside
        pace(made)
        if made in marks:
            wall, used = time.perf_counter(), time.process_time()
            curve.append((made, round(used - cpu - cpu_aside, 2), error(held, theta)))
            aside, cpu_aside = aside + time.perf_counter() - wall, cpu_aside + time.process_time() - used

    outcome = federation.run(watch)
    seconds, used = time.perf_counter() - began - aside, time.process_time() - cpu - cpu_aside
    found = quality(held, outcome.theta)
    return {
        "test_error": found.error,
        "test_loss": found.loss,
        "rounds": outcome.releases,
        "passes": plan.passes(held.train.units, outcome.releases),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "curve": curve,
    }


def error(held: Held, theta: Floats) -> float:
    """Of the test set's labels, the part that the model does not give."""
    rows, wrong = held.test.rows, 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        places = np.arange(start, min(start + ROWS_AT_ONCE, len(rows)))
        wrong += int((held.model.scores(rows.take(places), theta).argmax(axis=1) != held.test.targets[places]).sum())
    return wrong / len(rows)


def quality(held: Held, theta: Floats) -> Quality:
    """On the test set."""
    return evaluate(held.model, held.test, theta, Regulariser(), held.schema.target.kind)


def told(cell: Cell, held: Held, calibrated: Calibrated, admitted: bool) -> dict[str, Any]:
    """What a line says beside its result."""
    return {
        "cell": cell.name,
        "settings": cell.settings,
        "data": cell.data,
        "network": cell.network,
        "method": cell.method,
        "parties": cell.parties,
        "own": cell.own,
        "must": cell.must,
        "dimension": held.model.dimension,
        "target_epsilon": cell.epsilon,
        "epsilon": calibrated.epsilon,
        "delta": calibrated.delta,
        "relation": calibrated.mechanism.relation.value,
        "accountant": calibrated.accountant,
        "noise_multiplier": calibrated.mechanism.noise_multiplier,
        "noise_precision": calibrated.precision,
        "admitted_by_nodes": admitted,
        "algorithm": cell.algorithm,
    }


def rows_of(cells: Sequence[Cell], table: Table) -> list[dict[str, Any]]:
    """A row for each cell that has a result: means over its seeds, and the paper's figure beside."""
    rows = []
    for cell in cells:
        lines = table.of(cell)
        if not lines:
            continue
        errors = [line["test_error"] for line in lines]
        rows.append(
            {
                "cell": cell.name,
                "network": cell.network,
                "method": cell.method,
                "target_epsilon": cell.epsilon,
                "epsilon": lines[0]["epsilon"],
                "delta": lines[0]["delta"],
                "relation": lines[0]["relation"],
                "parties": cell.parties,
                "own": cell.own,
                "rounds": lines[0]["rounds"],
                "passes": lines[0]["passes"],
                "seeds": len(lines),
                "test_error": statistics.fmean(errors),
                "test_error_std": statistics.stdev(errors) if len(errors) > 1 else 0.0,
                "test_loss": statistics.fmean(line["test_loss"] for line in lines),
                "cpu_seconds": statistics.fmean(line["cpu_seconds"] for line in lines),
                "admitted_by_nodes": lines[0]["admitted_by_nodes"],
                "paper_test_error": cell.paper,
                "must": cell.must,
            }
        )
    return rows
