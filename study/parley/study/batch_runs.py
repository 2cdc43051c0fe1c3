"""Repeated simulated runs of one study, over keys and processes."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Plan
from parley.algorithms.registry import setting_of
from parley.federation.extras import install
from parley.learning.evaluation import Quality, evaluate
from parley.learning.records import Records
from parley.privacy.accountants import accountant
from parley.privacy.mechanism import Mechanism, Unit
from parley.study.data import Sets
from parley.study.errors import StudyError
from parley.study.simulation import Calibrated, Federation, calibrate
from parley.study.start_and_stop import EarlyStop, start_at

if TYPE_CHECKING:
    from parley.study.study import Study

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prepared:
    """Data in memory and noise calibrated: what all runs share."""

    study: "Study"
    sets: Sets
    calibrated: Calibrated
    noise: bool = True
    """False: the same training without noise, which protects nobody"""

    @property
    def mechanism(self) -> Mechanism:
        return self.calibrated.mechanism


def plan_for(study: "Study", units: int) -> Plan:
    """What the algorithm plans for so many units of privacy in all."""
    return study.new_algorithm().plan(_setting(study, units))


def _setting(study: "Study", units: int) -> Any:
    return setting_of(units, study.new_model(), study.epsilon, study.delta, study.schema, study.model["kind"])


def prepare(study: "Study", sets: Sets, certified: bool = False) -> Prepared:
    """Plan and calibrate; `certified` pays for the sampler's finite precision too, which takes some seconds."""
    sizes = sets.sizes()
    if certified and accountant(study.accountant).certifies:
        from parley.study.certified import calibrated_for

        return Prepared(study, sets, calibrated_for(study, sizes))
    plan = plan_for(study, sum(sizes.values()))
    unit = Unit(study.schema.unit)
    return Prepared(
        study, sets, calibrate(plan, sizes, study.epsilon, study.delta, study.accountant, unit, study.parts)
    )


def one_run(prepared: Prepared, key: int) -> dict[str, Any]:
    """The fields of `parley simulate`."""
    found = _federated(prepared, key)
    return {"seed": key, **found, **qualities(prepared.study, prepared.sets, found["theta"])}


def _federated(prepared: Prepared, key: int) -> dict[str, Any]:
    federation = federation_of(prepared, key)
    outcome, plan, mechanism = federation.run(), federation.plan, federation.mechanism
    return {
        **guarantee(prepared, plan.private),
        "rounds": mechanism.releases,
        "passes": plan.passes(sum(party.records.units for party in federation.parties), outcome.releases),
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "theta": outcome.theta,
    }


def federation_of(prepared: Prepared, key: int) -> Federation:
    """One run, ready to be played; whoever knows the key knows its noise."""
    study, chosen, parties = prepared.study, prepared.calibrated, prepared.sets.parties(key)
    algorithm = study.new_algorithm()
    plan = algorithm.plan(_setting(study, sum(records.units for records in parties.values())))
    start = start_at(study.start, algorithm, study.model_table(), study.schema)
    return Federation(
        algorithm,
        plan,
        study.new_model(),
        parties,
        chosen.mechanism,
        key,
        noise=prepared.noise,
        precision=chosen.precision,
        parts=chosen.parts,
        start=start.theta if start is not None else None,
        early=EarlyStop(study, prepared.sets) if study.stop_early is not None else None,
    )


def guarantee(prepared: Prepared, private: bool) -> dict[str, Any]:
    """ε at δ, and where a claim was made what the finite sampler takes of both; `private`: whether the plan is."""
    if not (private and prepared.noise):
        return {"epsilon": None, "delta": None, "accountant": "none", "noise_multiplier": 0.0}
    chosen = prepared.calibrated
    found: dict[str, Any] = {"epsilon": chosen.epsilon, "delta": chosen.delta, "accountant": chosen.accountant}
    found |= {"security": chosen.parts.security, "own": chosen.parts.own, "audit": chosen.parts.audit}
    if chosen.claim:
        found["epsilon_if_a_server_lies"] = chosen.claim.epsilon_if_a_server_lies
        found["gaussian_epsilon"] = chosen.claim.gaussian.epsilon
        found["gaussian_delta"] = chosen.claim.gaussian.delta
        found["noise_precision"] = chosen.precision
        found["statement"] = chosen.claim.sentence
    return {**found, "noise_multiplier": prepared.mechanism.noise_multiplier}


def qualities(study: "Study", sets: Sets, theta: Floats) -> dict[str, Any]:
    """How good a model is on the training sets together, weighted by size, and on the test set."""
    model = study.new_model()

    def quality(records: Records) -> Quality:
        return evaluate(model, records, theta, study.regulariser, study.schema.target.kind)

    train = [quality(records) for records in sets.own.values()]
    weights = [len(records.rows) for records in sets.own.values()]
    test = quality(sets.test) if sets.test else None
    return {
        "train_loss": math.fsum(each.loss * w for each, w in zip(train, weights, strict=True)) / sum(weights),
        "train_objective": math.fsum(each.objective * w for each, w in zip(train, weights, strict=True)) / sum(weights),
        "test_loss": test.loss if test else None,
        "test_objective": test.objective if test else None,
        "test_error": test.error if test else None,
        "auc": test.auc if test else None,
    }


def simulate_keys(prepared: Prepared, keys: Sequence[int], workers: int = 1) -> list[dict[str, Any]]:
    """One run for each key, in order."""
    return spread(partial(one_run, prepared), keys, workers)


Run = Callable[[int], dict[str, Any]]
Wanted = TypeVar("Wanted")
Found = TypeVar("Found")
_KEPT: list[Callable[[Any], Any]] = []
BACKENDS = ("local", "ray")


def spread(run: Callable[[Wanted], Found], wanted: Sequence[Wanted], workers: int) -> list[Found]:
    """`run` of every one, in order, over processes that are each given it once."""
    if workers == 1 or len(wanted) == 1:
        return [run(each) for each in wanted]
    with ProcessPoolExecutor(min(workers, len(wanted)), initializer=_keep, initargs=(run,)) as pool:
        return list(pool.map(_run_kept, wanted))


class Spread(Protocol):
    """`run` of every one, in order, wherever it is computed."""

    def __call__(self, run: Callable[[Wanted], Found], wanted: Sequence[Wanted]) -> list[Found]: ...


def require_backend(backend: str) -> None:
    """Before anything is charged: a StudyError where it is none, or not installed."""
    if backend not in BACKENDS:
        raise StudyError(f"backend is {backend!r}: use {' or '.join(BACKENDS)}")
    if backend == "ray" and find_spec("ray") is None:
        raise StudyError(install("ray"))


@contextmanager
def spreading(backend: str, workers: int) -> Iterator[Spread]:
    """Over processes of this machine, or the workers of a Ray cluster that is there for as long as this lasts."""
    if backend == "local":
        yield partial(spread, workers=workers)
        return
    from parley.compute.cluster import Cluster
    from parley.compute.fits import FitPool

    with FitPool(Cluster(workers=workers)) as pool:
        yield pool.spread


def _keep(run: Callable[[Any], Any]) -> None:
    _KEPT.append(run)


def _run_kept(wanted: Any) -> Any:
    return _KEPT[-1](wanted)


def mean_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean over the runs of every number, and `<field>_std`, the sample deviation, of the losses and errors."""
    result: dict[str, Any] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        if name == "seed" or not all(isinstance(value, int | float) for value in values):
            continue
        result[name] = statistics.fmean(values)
        if name.startswith(("train_", "test_")) or name == "auc":
            result[name + "_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return result
