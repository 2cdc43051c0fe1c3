"""Repeated simulated runs of one run file, over seeds and processes."""

import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from deploy.evaluation import Quality, evaluate
from deploy.run_file import RunFile, setting_of
from deploy.simulation import Calibrated, Federation, calibrate, split
from party.records import Records, load
from party.schema import Schema
from privacy.mechanism import Unit


@dataclass(frozen=True)
class Prepared:
    """Data in memory and noise calibrated: what all seeds share."""

    setup: RunFile
    pooled: list[Records]
    test: Records | None
    calibrated: Calibrated


@lru_cache(maxsize=4)
def _load(paths: tuple[Path, ...], schema: Schema) -> Records:
    """Read once for all rows of a table."""
    return load(paths, schema)


def prepare(setup: RunFile) -> Prepared:
    """Read, plan and calibrate."""
    pooled = [_load(tuple(paths), setup.schema) for paths in setup.train]
    return prepare_with(setup, pooled, _load(tuple(setup.test), setup.schema) if setup.test else None)


def prepare_with(setup: RunFile, pooled: list[Records], test: Records | None) -> Prepared:
    """The same with records that are in memory already."""
    sizes = {name: records.units for name, records in _parties(setup, pooled, 0).items()}
    model = setup.new_model()
    plan = setup.new_algorithm().plan(
        setting_of(sum(sizes.values()), model, setup.epsilon, setup.delta, setup.schema, setup.model["kind"])
    )
    unit = Unit(setup.schema.unit)
    return Prepared(setup, pooled, test, calibrate(plan, sizes, setup.epsilon, setup.delta, setup.accountant, unit))


def _parties(setup: RunFile, pooled: list[Records], seed: int) -> dict[str, Records]:
    if len(pooled) > 1:
        return {f"party-{index + 1}": records for index, records in enumerate(pooled)}
    return split(pooled[0], setup.parties, seed)


def one_run(prepared: Prepared, seed: int) -> dict[str, Any]:
    """The fields of `parley simulate`."""
    setup, mechanism = prepared.setup, prepared.calibrated.mechanism
    model, algorithm = setup.new_model(), setup.new_algorithm()
    parties = _parties(setup, prepared.pooled, seed)
    sizes = {name: records.units for name, records in parties.items()}
    plan = algorithm.plan(
        setting_of(sum(sizes.values()), model, setup.epsilon, setup.delta, setup.schema, setup.model["kind"])
    )
    federation = Federation(algorithm, plan, model, parties, mechanism, seed, setup.noise)
    outcome = federation.run()
    private = plan.private and setup.noise

    def quality(records: Records) -> Quality:
        return evaluate(model, records, outcome.theta, setup.regulariser, setup.schema.target.kind)

    train = [quality(records) for records in prepared.pooled]
    weights = [len(records.rows) for records in prepared.pooled]
    test = quality(prepared.test) if prepared.test else None
    return {
        "seed": seed,
        "epsilon": prepared.calibrated.epsilon if private else None,
        "delta": prepared.calibrated.delta if private else None,
        "accountant": prepared.calibrated.accountant if private else "none",
        "noise_multiplier": mechanism.noise_multiplier if private else 0.0,
        "rounds": mechanism.releases,
        "passes": plan.passes(sum(sizes.values())),
        "train_loss": math.fsum(each.loss * w for each, w in zip(train, weights, strict=True)) / sum(weights),
        "train_objective": math.fsum(each.objective * w for each, w in zip(train, weights, strict=True)) / sum(weights),
        "test_loss": test.loss if test else None,
        "test_objective": test.objective if test else None,
        "test_error": test.error if test else None,
        "auc": test.auc if test else None,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "theta": outcome.theta,
    }


def simulate_seeds(setup: RunFile, seeds: int, workers: int) -> list[dict[str, Any]]:
    """Seeds 0 … seeds − 1, in order."""
    prepared = prepare(setup)
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
