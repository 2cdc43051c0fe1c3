"""Simulated runs of every method that a study may name: a federation's (parley.study.batch_runs), and central ones.

A central method has no mechanism, so nothing is planned or calibrated: its ε and δ are the target's, by its own proof.
"""

import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from parley.research.central.method import STATEMENT, CentralMethod, build_central, linear_model
from parley.research.central.noise import Noise
from parley.study import batch_runs
from parley.study.batch_runs import Run, mean_of, qualities, spread
from parley.study.data import Sets, sets_of
from parley.study.errors import StudyError
from parley.study.simulate import KEY_BITS
from parley.study.simulation import SeededRandomness, seeded_stream
from parley.study.study import Study


@dataclass(frozen=True)
class Central:
    """A central method and data in memory: what all runs share."""

    method: CentralMethod
    study: Study
    sets: Sets
    noise: bool = True
    """False: the same without noise, which protects nobody"""


def central_method(study: Study) -> CentralMethod | None:
    """None where the algorithm is one that a federation can run."""
    found = build_central(study.algorithm)
    if found and study.regulariser.kind != "none":
        raise StudyError("a central method has its own penalty, called strength: leave the regulariser out")
    return found


def simulate(study: Study, seeds: int, repeatable: bool, workers: int, test: Any = None) -> dict[str, Any]:
    """A central method on the study's own files: `runs` and their `mean`, and the same without noise beside them."""
    method = central_method(study)
    if method is None:
        raise StudyError(f"{study.algorithm['name']} is no central method: simulate the study itself")
    keys = [number if repeatable else secrets.randbits(KEY_BITS) for number in range(seeds)]
    drawn = SeededRandomness("hold-out", 0 if repeatable else secrets.randbits(KEY_BITS))
    sets = sets_of(study, None, test, drawn)
    found = spread(partial(central_run, Central(method, study, sets)), keys, workers)
    plain = central_run(Central(method, study, sets, noise=False), keys[0])
    runs = [{**each, "seed": number} for number, each in enumerate(found)]
    return {"runs": runs, "mean": mean_of(runs), "without_privacy": {**plain, "seed": 0}}


def run_with(study: Study, sets: Sets) -> Run:
    """One run of either kind, on records that are in memory already."""
    method = central_method(study)
    if method is None:
        return partial(batch_runs.one_run, batch_runs.prepare(study, sets))
    return partial(central_run, Central(method, study, sets))


def central_run(prepared: Central, seed: int) -> dict[str, Any]:
    """The fields of `parley simulate`."""
    study, model, method = prepared.study, prepared.study.new_model(), prepared.method
    parties = {
        name: (
            records,
            Noise(seeded_stream(f"own noise {name}", seed), not prepared.noise),
            SeededRandomness(name, seed),
        )
        for name, records in prepared.sets.parties(seed).items()
    }
    wall, cpu = time.perf_counter(), time.process_time()
    reach = study.schema.feature_bound
    theta = method.train(parties.values(), model, study.epsilon, study.delta, reach)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    smallest = min(len(records.rows) for records, _, _ in parties.values())
    target = method.target(smallest, linear_model(model), study.epsilon, study.delta, reach)
    return {
        "seed": seed,
        "epsilon": study.epsilon if prepared.noise else None,
        "delta": target.delta if prepared.noise else None,
        "accountant": "own proof" if prepared.noise else "none",
        "noise_scale": method.noise_scale(target) if prepared.noise else 0.0,
        "statement": STATEMENT,
        "rounds": 1,
        "passes": None,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "theta": theta,
        **qualities(study, prepared.sets, theta),
    }
