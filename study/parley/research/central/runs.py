"""Simulated runs of every method that a run file may name: a federation's (parley.study.batch_runs), and central ones.

A central method has no mechanism, so nothing is planned or calibrated: its ε and δ are the target's, by its own proof.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from parley.learning.records import Records
from parley.research.central.method import STATEMENT, CentralMethod, build_central, linear_model
from parley.research.central.noise import Noise
from parley.study import batch_runs
from parley.study.batch_runs import Run, parties_of, qualities, records_of, spread
from parley.study.errors import RunFileError
from parley.study.run_file import RunFile, parse_run_file
from parley.study.simulation import SeededRandomness, seeded_stream


@dataclass(frozen=True)
class Central:
    """A central method and data in memory: what all seeds share."""

    method: CentralMethod
    setup: RunFile
    pooled: list[Records]
    test: Records | None


def read_any_run_file(path: Path) -> RunFile:
    """Checked in all, with any algorithm."""
    setup = parse_run_file(path)
    if central_method(setup) is None:
        setup.new_algorithm()
    return setup


def central_method(setup: RunFile) -> CentralMethod | None:
    """None where the algorithm is one that a federation can run."""
    found = build_central(setup.algorithm)
    if found and setup.regulariser.kind != "none":
        raise RunFileError("a central method has its own penalty, called strength: leave the regulariser out")
    return found


def simulate_seeds(setup: RunFile, seeds: int, workers: int) -> list[dict[str, Any]]:
    """Seeds 0 … seeds − 1, in order."""
    method = central_method(setup)
    if method is None:
        return batch_runs.simulate_seeds(setup, seeds, workers)
    return spread(partial(central_run, Central(method, setup, *records_of(setup))), seeds, workers)


def run_with(setup: RunFile, pooled: list[Records], test: Records | None) -> Run:
    """One seed's run of either kind, on records that are in memory already."""
    method = central_method(setup)
    if method is None:
        return partial(batch_runs.one_run, batch_runs.prepare_with(setup, pooled, test))
    return partial(central_run, Central(method, setup, pooled, test))


def central_run(prepared: Central, seed: int) -> dict[str, Any]:
    """The fields of `parley simulate`."""
    setup, model, method = prepared.setup, prepared.setup.new_model(), prepared.method
    parties = {
        name: (records, Noise(seeded_stream(f"own noise {name}", seed), not setup.noise), SeededRandomness(name, seed))
        for name, records in parties_of(setup, prepared.pooled, seed).items()
    }
    wall, cpu = time.perf_counter(), time.process_time()
    reach = setup.schema.feature_bound
    theta = method.train(parties.values(), model, setup.epsilon, setup.delta, reach)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    smallest = min(len(records.rows) for records, _, _ in parties.values())
    target = method.target(smallest, linear_model(model), setup.epsilon, setup.delta, reach)
    return {
        "seed": seed,
        "epsilon": setup.epsilon if setup.noise else None,
        "delta": target.delta if setup.noise else None,
        "accountant": "own proof" if setup.noise else "none",
        "noise_scale": method.noise_scale(target) if setup.noise else 0.0,
        "statement": STATEMENT,
        "rounds": 1,
        "passes": None,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "theta": theta,
        **qualities(setup, prepared.pooled, prepared.test, theta),
    }
