"""`parley audit privacy`: a lower bound on ε from trainings of the real code, and five faults that it must catch.

    parley audit privacy --json
    parley audit privacy --runs 20000 --confidence 0.99

The honest system's bound must stay below the claim; each fault's must exceed it, by the statistic alone. Exit code 1
where either fails. The audited mechanism is small on purpose: a few thousand trainings resolve a δ of a few hundredths,
and a wrong noise, clip, batch or opening shows at any point of the curve ε(δ).
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from deploy.console import EXIT_BAD_NEWS, emit_json, fail, progress
from deploy.release_path import Floats, LogisticTraining, SystemNoise
from privacy.accountants import accountant, require_delta
from privacy.audit import Finding, ReleasePath, neighbour_test, one_run_test, worst_neighbours
from privacy.clipping import MomentumClip
from privacy.errors import InvalidParameter
from privacy.mechanism import Cohort, Mechanism
from privacy.randomness import SystemRandomness
from privacy.sampling import FixedSize

app = typer.Typer(help="Measure privacy from the outside.", no_args_is_help=True)

MAGNITUDE = 100.0
"""Length of a record's features: clipping binds, and θ·x stays near 0 under the paper's step size."""
SMOOTHNESS = MAGNITUDE**2 / 4
CANARIES = 1500
ONE_RUN_DELTA = 1e-5


def audited(units: int) -> Mechanism:
    """Two releases of DDP-SRM at rate one half, the same claim for any number of units."""
    sampler = FixedSize(units, units // 2)
    return Mechanism((Cohort("audited", sampler),), MomentumClip(1.0, 0.01, 0.5), 0.7, 1)


class HalfNoise(SystemNoise):
    """Fault: the noise has half the deviation that is accounted."""

    def lattice_normals(self, count: int) -> Floats:
        """`count` samples, halved."""
        return np.rint(super().lattice_normals(count) / 2)


class ReusedNoise(SystemNoise):
    """Fault: every second request is answered with the samples of the one before."""

    _kept: Floats | None = None

    def lattice_normals(self, count: int) -> Floats:
        """`count` samples, each twice."""
        if self._kept is None:
            self._kept = super().lattice_normals(count)
            return self._kept
        kept, self._kept = self._kept, None
        return kept


class Unclipped(LogisticTraining):
    """Fault: clipping is switched off."""

    def terms(self, index: int, gradients: Floats, previous: Floats) -> Floats:
        """Each unit's term, as long as it is."""
        if index == 0:
            return gradients
        return (1 - self._gamma) * (gradients - previous) + self._gamma * gradients


class Reopened(LogisticTraining):
    """Fault: the first sum is opened twice under fresh noise."""

    def open_sum(self, index: int, encoded: Floats) -> tuple[Floats, ...]:
        """The opening, and in the first round another one."""
        once = super().open_sum(index, encoded)
        return once + super().open_sum(index, encoded) if index == 0 else once


PathFor = Callable[[Mechanism], ReleasePath]


def _path(
    training: type[LogisticTraining] = LogisticTraining, noise: type[SystemNoise] = SystemNoise, batches: int = 1
) -> PathFor:
    def build(mechanism: Mechanism) -> ReleasePath:
        source = SystemRandomness()
        return training(_with_batch(mechanism, batches), noise(source), source, SMOOTHNESS)

    return build


def _with_batch(mechanism: Mechanism, factor: int) -> Mechanism:
    (cohort,) = mechanism.cohorts
    larger = FixedSize(cohort.sampler.units, factor * cohort.sampler.mean_batch)
    return dataclasses.replace(mechanism, cohorts=(Cohort(cohort.party, larger),))


HONEST = _path()
FAULTS: dict[str, PathFor] = {
    "half the noise": _path(noise=HalfNoise),
    "one noise in two rounds": _path(noise=ReusedNoise),
    "clipping off": _path(Unclipped),
    "batch twice as large": _path(batches=2),
    "sum opened twice": _path(Reopened),
}


@app.command()
def privacy(
    runs: Annotated[int, typer.Option(help="Trainings on each of the two neighbours, per system.")] = 20000,
    delta: Annotated[float, typer.Option(help="The δ at which the claim and the bound are compared.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="Probability that the honest system's bound is right.")] = 0.95,
    units: Annotated[int, typer.Option(help="Records of the audited training.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="End with one line of JSON.")] = False,
) -> None:
    """Bound ε from below for the honest system and for five faults."""
    if not 0.5 <= confidence < 1:
        raise InvalidParameter(f"confidence is {confidence}: give a number from 0.5 to below 1, such as 0.95")
    if units < 4 or units % 2:
        raise InvalidParameter(f"units is {units}: give an even number of at least 4")
    require_delta(delta)
    started = time.perf_counter()
    claimed = accountant("pld").epsilon(audited(units).event("audited"), delta).epsilon
    # Neighbours and canaries are two looks at the honest system, so each gets half of the doubt.
    shared = 1 - (1 - confidence) / 2
    honest = _tested("the honest system", HONEST, units, runs, delta, shared, claimed)
    faults = []
    for name, path in FAULTS.items():
        finding = _tested(name, path, units, runs, delta, confidence, claimed)
        faults.append(
            {
                "name": name,
                "caught": finding.epsilon_lower_bound > claimed,
                "epsilon_lower_bound": finding.epsilon_lower_bound,
                "statistic": finding.statistic,
                "power": finding.power,
            }
        )
    one_run = _one_run(shared)
    result: dict[str, Any] = {
        "epsilon_claimed": claimed,
        "epsilon_lower_bound": honest.epsilon_lower_bound,
        "delta": delta,
        "confidence": confidence,
        "runs": 2 * runs,
        "statistic": honest.statistic,
        "one_run": one_run,
        "faults": faults,
        "seconds": time.perf_counter() - started,
    }
    if json:
        emit_json(result)
    else:
        _print(result)
    missed = [str(fault["name"]) for fault in faults if not fault["caught"]]
    if honest.epsilon_lower_bound > claimed or one_run["epsilon_lower_bound"] > one_run["epsilon_claimed"]:
        fail("the honest system leaks more than it claims: stop all runs and look for the fault", EXIT_BAD_NEWS)
    if missed:
        fail(f"the audit misses {', '.join(missed)}: give it more --runs", EXIT_BAD_NEWS)


def _tested(
    name: str, path: PathFor, units: int, runs: int, delta: float, confidence: float, claimed: float
) -> Finding:
    progress(f"{name}: {runs} trainings on each neighbour")
    mechanism = audited(units)
    neighbours = worst_neighbours(units, 1, MAGNITUDE)
    return neighbour_test(path(mechanism), mechanism, neighbours, runs, delta, confidence, claimed)


def _one_run(confidence: float) -> dict[str, Any]:
    """Canaries in one training of the honest system, at the δ of a run, small beside one over their number."""
    progress(f"one training with {CANARIES} canaries")
    mechanism = audited(CANARIES)
    claimed = accountant("pld").epsilon(mechanism.event("audited"), ONE_RUN_DELTA).epsilon
    finding = one_run_test(HONEST(mechanism), mechanism, MAGNITUDE, ONE_RUN_DELTA, confidence, SystemRandomness())
    return {
        "epsilon_claimed": claimed,
        "epsilon_lower_bound": finding.epsilon_lower_bound,
        "delta": ONE_RUN_DELTA,
        "canaries": CANARIES,
        "statistic": finding.statistic,
    }


def _print(result: dict[str, Any]) -> None:
    claimed, bound = result["epsilon_claimed"], result["epsilon_lower_bound"]
    print(f"honest: epsilon at least {bound:.3g}, claimed {claimed:.3g} at delta {result['delta']:g}")
    one = result["one_run"]
    print(f"one run: epsilon at least {one['epsilon_lower_bound']:.3g}, claimed {one['epsilon_claimed']:.3g}")
    for fault in result["faults"]:
        verdict = "caught" if fault["caught"] else "MISSED"
        print(
            f"{fault['name']}: {verdict}, epsilon at least {fault['epsilon_lower_bound']:.3g}, "
            f"power {fault['power']:.3g}"
        )
