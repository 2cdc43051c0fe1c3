"""Repeated simulated runs of one run file, over seeds and processes."""

import math
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.holding import Layout
from parley.learning.records import Records, load
from parley.learning.schema import Schema
from parley.privacy.accountants import accountant
from parley.privacy.mechanism import Mechanism, Unit
from parley.research.central.method import STATEMENT, CentralMethod, linear_model
from parley.research.central.noise import Noise
from parley.study.errors import RunFileError
from parley.study.evaluation import Quality, evaluate
from parley.study.run_file import RunFile, setting_of
from parley.study.simulation import Calibrated, Federation, SeededRandomness, calibrate, seeded_stream, split

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prepared:
    """Data in memory and noise calibrated: what all seeds share."""

    setup: RunFile
    pooled: list[Records]
    test: Records | None
    calibrated: Calibrated | None
    """None for a central method, which no mechanism describes"""

    @property
    def mechanism(self) -> Mechanism:
        if self.calibrated is None:
            raise RunFileError(f"{self.setup.algorithm['name']} has no mechanism: its noise is the party's own")
        return self.calibrated.mechanism


@lru_cache(maxsize=4)
def _load(paths: tuple[Path, ...], schema: Schema, layout: Layout) -> Records:
    """Read once for all rows of a table."""
    return load(paths, schema, layout)


def prepare(setup: RunFile, certified: bool = False) -> Prepared:
    """Read, plan and calibrate; `certified` pays for the sampler's finite precision too, which takes some seconds."""
    pooled = [_load(tuple(paths), setup.schema, setup.layout) for paths in setup.train]
    test = _load(tuple(setup.test), setup.schema, setup.layout) if setup.test else None
    return prepare_with(setup, pooled, test, certified)


def prepare_with(setup: RunFile, pooled: list[Records], test: Records | None, certified: bool = False) -> Prepared:
    """The same with records that are in memory already."""
    if setup.central_method() is not None:
        return Prepared(setup, pooled, test, None)
    sizes = {name: records.units for name, records in _parties(setup, pooled, 0).items()}
    model = setup.new_model()
    plan = setup.new_algorithm().plan(
        setting_of(sum(sizes.values()), model, setup.epsilon, setup.delta, setup.schema, setup.model["kind"])
    )
    unit = Unit(setup.schema.unit)
    if certified and accountant(setup.accountant).certifies:
        from parley.study.certified import calibrate_certified

        chosen = calibrate_certified(
            plan, sizes, model.dimension, setup.epsilon, setup.delta, setup.accountant, unit, setup.parts
        )
    else:
        chosen = calibrate(plan, sizes, setup.epsilon, setup.delta, setup.accountant, unit)
    return Prepared(setup, pooled, test, chosen)


def _parties(setup: RunFile, pooled: list[Records], seed: int) -> dict[str, Records]:
    if len(pooled) > 1:
        return {f"party-{index + 1}": records for index, records in enumerate(pooled)}
    return split(pooled[0], setup.parties, seed)


def one_run(prepared: Prepared, seed: int) -> dict[str, Any]:
    """The fields of `parley simulate`."""
    method = prepared.setup.central_method()
    found = _central(prepared, method, seed) if method else _federated(prepared, seed)
    return {"seed": seed, **found, **_qualities(prepared, found["theta"])}


def _federated(prepared: Prepared, seed: int) -> dict[str, Any]:
    federation = federation_of(prepared, seed)
    outcome, plan, mechanism = federation.run(), federation.plan, federation.mechanism
    private = plan.private and prepared.setup.noise
    return {
        **(_guarantee(prepared) if private else {"epsilon": None, "delta": None, "accountant": "none"}),
        "noise_multiplier": mechanism.noise_multiplier if private else 0.0,
        "rounds": mechanism.releases,
        "passes": plan.passes(sum(party.records.units for party in federation.parties), outcome.releases),
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "theta": outcome.theta,
    }


def federation_of(prepared: Prepared, seed: int) -> Federation:
    """One seed's run, ready to be played."""
    setup, model, algorithm = prepared.setup, prepared.setup.new_model(), prepared.setup.new_algorithm()
    parties = _parties(setup, prepared.pooled, seed)
    sizes = {name: records.units for name, records in parties.items()}
    plan = algorithm.plan(
        setting_of(sum(sizes.values()), model, setup.epsilon, setup.delta, setup.schema, setup.model["kind"])
    )
    precision = prepared.calibrated.precision if prepared.calibrated else "standard"
    return Federation(algorithm, plan, model, parties, prepared.mechanism, seed, setup.noise, precision, setup.parts)


def _guarantee(prepared: Prepared) -> dict[str, Any]:
    """ε at δ, and where a claim was made what the finite sampler takes of both."""
    chosen = prepared.calibrated
    if chosen is None:
        return {}
    found: dict[str, Any] = {"epsilon": chosen.epsilon, "delta": chosen.delta, "accountant": chosen.accountant}
    parts = prepared.setup.parts
    found |= {"security": parts.security, "own": parts.own}
    if chosen.claim:
        found["epsilon_if_a_server_lies"] = chosen.claim.epsilon_if_a_server_lies
        found["gaussian_epsilon"] = chosen.claim.gaussian.epsilon
        found["gaussian_delta"] = chosen.claim.gaussian.delta
        found["noise_precision"] = chosen.precision
        found["statement"] = chosen.claim.sentence
    return found


def _central(prepared: Prepared, method: CentralMethod, seed: int) -> dict[str, Any]:
    """ε and δ are the target's, by the method's own proof."""
    setup, model = prepared.setup, prepared.setup.new_model()
    parties = {
        name: (records, Noise(seeded_stream(f"own noise {name}", seed), not setup.noise), SeededRandomness(name, seed))
        for name, records in _parties(setup, prepared.pooled, seed).items()
    }
    wall, cpu = time.perf_counter(), time.process_time()
    reach = setup.schema.feature_bound
    theta = method.train(parties.values(), model, setup.epsilon, setup.delta, reach)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    smallest = min(len(records.rows) for records, _, _ in parties.values())
    target = method.target(smallest, linear_model(model), setup.epsilon, setup.delta, reach)
    return {
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
    }


def _qualities(prepared: Prepared, theta: Floats) -> dict[str, Any]:
    setup = prepared.setup
    model = setup.new_model()

    def quality(records: Records) -> Quality:
        return evaluate(model, records, theta, setup.regulariser, setup.schema.target.kind)

    train = [quality(records) for records in prepared.pooled]
    weights = [len(records.rows) for records in prepared.pooled]
    test = quality(prepared.test) if prepared.test else None
    return {
        "train_loss": math.fsum(each.loss * w for each, w in zip(train, weights, strict=True)) / sum(weights),
        "train_objective": math.fsum(each.objective * w for each, w in zip(train, weights, strict=True)) / sum(weights),
        "test_loss": test.loss if test else None,
        "test_objective": test.objective if test else None,
        "test_error": test.error if test else None,
        "auc": test.auc if test else None,
    }


def simulate_seeds(setup: RunFile, seeds: int, workers: int) -> list[dict[str, Any]]:
    """Seeds 0 … seeds − 1, in order."""
    prepared = prepare(setup, certified=setup.noise)
    if workers == 1 or seeds == 1:
        return [one_run(prepared, seed) for seed in range(seeds)]
    with ProcessPoolExecutor(min(workers, seeds), initializer=_keep, initargs=(prepared,)) as pool:
        return list(pool.map(_run_kept, range(seeds)))


_KEPT: list[Prepared] = []


def _keep(prepared: Prepared) -> None:
    _KEPT.append(prepared)


def _run_kept(seed: int) -> dict[str, Any]:
    return one_run(_KEPT[-1], seed)


def mean_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean over the seeds of every number, and `<field>_std`, the sample deviation, of the losses and errors."""
    result: dict[str, Any] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        if name == "seed" or not all(isinstance(value, int | float) for value in values):
            continue
        result[name] = statistics.fmean(values)
        if name.startswith(("train_", "test_")) or name == "auc":
            result[name + "_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return result
