"""Repeated simulated runs of one run file, over seeds and processes."""

import math
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.registry import setting_of
from parley.learning.evaluation import Quality, evaluate
from parley.learning.holding import Layout
from parley.learning.records import Records, load
from parley.learning.schema import Schema
from parley.privacy.accountants import accountant
from parley.privacy.mechanism import Mechanism, Unit
from parley.study.run_file import RunFile
from parley.study.simulation import Calibrated, Federation, calibrate, split

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prepared:
    """Data in memory and noise calibrated: what all seeds share."""

    setup: RunFile
    pooled: list[Records]
    test: Records | None
    calibrated: Calibrated

    @property
    def mechanism(self) -> Mechanism:
        return self.calibrated.mechanism


@lru_cache(maxsize=4)
def _load(paths: tuple[Path, ...], schema: Schema, layout: Layout) -> Records:
    """Read once for all rows of a table."""
    return load(paths, schema, layout)


def prepare(setup: RunFile, certified: bool = False) -> Prepared:
    """Read, plan and calibrate; `certified` pays for the sampler's finite precision too, which takes some seconds."""
    return prepare_with(setup, *records_of(setup), certified)


def records_of(setup: RunFile) -> tuple[list[Records], Records | None]:
    """Its data sets, and the public test set if it names one."""
    pooled = [_load(tuple(paths), setup.schema, setup.layout) for paths in setup.train]
    return pooled, _load(tuple(setup.test), setup.schema, setup.layout) if setup.test else None


def prepare_with(setup: RunFile, pooled: list[Records], test: Records | None, certified: bool = False) -> Prepared:
    """The same with records that are in memory already."""
    sizes = {name: records.units for name, records in parties_of(setup, pooled, 0).items()}
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


def parties_of(setup: RunFile, pooled: list[Records], seed: int) -> dict[str, Records]:
    """As the run file has them, or a pooled file shared out."""
    if len(pooled) > 1:
        return {f"party-{index + 1}": records for index, records in enumerate(pooled)}
    return split(pooled[0], setup.parties, seed)


def one_run(prepared: Prepared, seed: int) -> dict[str, Any]:
    """The fields of `parley simulate`."""
    found = _federated(prepared, seed)
    return {"seed": seed, **found, **qualities(prepared.setup, prepared.pooled, prepared.test, found["theta"])}


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
    parties = parties_of(setup, prepared.pooled, seed)
    sizes = {name: records.units for name, records in parties.items()}
    plan = algorithm.plan(
        setting_of(sum(sizes.values()), model, setup.epsilon, setup.delta, setup.schema, setup.model["kind"])
    )
    chosen = prepared.calibrated
    return Federation(
        algorithm, plan, model, parties, chosen.mechanism, seed, setup.noise, chosen.precision, setup.parts
    )


def _guarantee(prepared: Prepared) -> dict[str, Any]:
    """ε at δ, and where a claim was made what the finite sampler takes of both."""
    chosen = prepared.calibrated
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


def qualities(setup: RunFile, pooled: list[Records], test_set: Records | None, theta: Floats) -> dict[str, Any]:
    """How good a model is on the training sets together, weighted by size, and on the test set."""
    model = setup.new_model()

    def quality(records: Records) -> Quality:
        return evaluate(model, records, theta, setup.regulariser, setup.schema.target.kind)

    train = [quality(records) for records in pooled]
    weights = [len(records.rows) for records in pooled]
    test = quality(test_set) if test_set else None
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
    return spread(partial(one_run, prepare(setup, certified=setup.noise)), seeds, workers)


Run = Callable[[int], dict[str, Any]]
_KEPT: list[Run] = []


def spread(run: Run, seeds: int, workers: int) -> list[dict[str, Any]]:
    """`run` of every seed, over processes that are each given it once."""
    if workers == 1 or seeds == 1:
        return [run(seed) for seed in range(seeds)]
    with ProcessPoolExecutor(min(workers, seeds), initializer=_keep, initargs=(run,)) as pool:
        return list(pool.map(_run_kept, range(seeds)))


def _keep(run: Run) -> None:
    _KEPT.append(run)


def _run_kept(seed: int) -> dict[str, Any]:
    return _KEPT[-1](seed)


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
