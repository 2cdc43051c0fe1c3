"""`parley audit privacy`: a lower bound on ε from trainings of the real code, and five faults that it must catch.

    parley audit privacy --json
    parley audit privacy --runs 80000 --confidence 0.99

The honest system's bound must stay below the claim; each fault's must exceed it, by the statistic alone. Exit code 1
where either fails. The audited mechanism is small on purpose: a few thousand trainings resolve a δ of a few hundredths,
and a wrong noise, clip, batch or opening shows at any point of the curve ε(δ).
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from parley.mpc.ring import Integers, Lattice
from parley.privacy.accountants import accountant, require_delta
from parley.privacy.audit import Finding, ReleasePath, neighbour_test, one_run_test, worst_neighbours
from parley.privacy.clipping import MomentumClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Cohort, Mechanism
from parley.privacy.randomness import SystemRandomness
from parley.privacy.sampling import FixedSize
from parley.research.release_path import LogisticTraining, NoiseSource, servers_noise

MAGNITUDE = 100.0
"""Length of a record's features: clipping binds, and θ·x stays near 0 under the paper's step size."""
SMOOTHNESS = MAGNITUDE**2 / 4
CANARIES = 1500
ONE_RUN_DELTA = 1e-5


def audited(units: int) -> Mechanism:
    """Two releases of DDP-SRM at rate one half, the same claim for any number of units."""
    sampler = FixedSize(units, units // 2)
    return Mechanism((Cohort("audited", sampler),), MomentumClip(1.0, 0.01, 0.5), 0.7, 1)


class HalfNoise:
    """Fault: the noise has half the deviation that is accounted."""

    def __init__(self, honest: NoiseSource) -> None:
        self._honest = honest

    def release(self, lattice: Lattice, count: int) -> Integers:
        """`count` samples, halved."""
        return self._honest.release(lattice, count) // 2


class ReusedNoise:
    """Fault: every second request is answered with the samples of the one before."""

    def __init__(self, honest: NoiseSource) -> None:
        self._honest = honest
        self._kept: Integers | None = None

    def release(self, lattice: Lattice, count: int) -> Integers:
        """`count` samples, each twice."""
        if self._kept is None:
            self._kept = self._honest.release(lattice, count)
            return self._kept
        kept, self._kept = self._kept, None
        return kept


PathFor = Callable[[Mechanism], ReleasePath]


def _path(
    noise: Callable[[NoiseSource], NoiseSource] | None = None,
    actual: Callable[[Mechanism], Mechanism] | None = None,
    openings: int = 1,
) -> PathFor:
    def build(mechanism: Mechanism) -> ReleasePath:
        honest = servers_noise()
        return LogisticTraining(
            mechanism,
            noise(honest) if noise else honest,
            SMOOTHNESS,
            actual(mechanism) if actual else None,
            openings,
        )

    return build


def _unclipped(mechanism: Mechanism) -> Mechanism:
    """Clip norms that no gradient reaches: half of MAGNITUDE is the longest."""
    clip = mechanism.clip
    if not isinstance(clip, MomentumClip):
        raise InvalidParameterError("this audit trains with DDP-SRM: give the mechanism a MomentumClip")
    return dataclasses.replace(mechanism, clip=MomentumClip(MAGNITUDE, MAGNITUDE, clip.gamma))


def _with_twice_the_batch(mechanism: Mechanism) -> Mechanism:
    (cohort,) = mechanism.cohorts
    larger = FixedSize(cohort.sampler.units, 2 * cohort.sampler.mean_batch)
    return dataclasses.replace(mechanism, cohorts=(Cohort(cohort.party, larger),))


HONEST = _path()
FAULTS: dict[str, PathFor] = {
    "half the noise": _path(noise=HalfNoise),
    "one noise in two rounds": _path(noise=ReusedNoise),
    "clipping off": _path(actual=_unclipped),
    "batch twice as large": _path(actual=_with_twice_the_batch),
    "sum opened twice": _path(openings=2),
}


def run(runs: int, delta: float, confidence: float, units: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Bound ε from below for the honest system and for five faults; the fields of `parley audit privacy --json`."""
    if not 0.5 <= confidence < 1:
        raise InvalidParameterError(f"confidence is {confidence}: give a number from 0.5 to below 1, such as 0.95")
    if units < 4 or units % 2:
        raise InvalidParameterError(f"units is {units}: give an even number of at least 4")
    require_delta(delta)
    started = time.perf_counter()
    claimed = accountant("pld").epsilon(audited(units).event("audited"), delta).epsilon
    # Neighbours and canaries are two looks at the honest system, so each gets half of the doubt.
    shared = 1 - (1 - confidence) / 2
    honest = _tested("the honest system", HONEST, units, runs, delta, shared, claimed, progress)
    faults = []
    for name, path in FAULTS.items():
        finding = _tested(name, path, units, runs, delta, confidence, claimed, progress)
        faults.append(
            {
                "name": name,
                "caught": finding.epsilon_lower_bound > claimed,
                "epsilon_lower_bound": finding.epsilon_lower_bound,
                "statistic": finding.statistic,
                "power": finding.power,
            }
        )
    one_run = _one_run(shared, progress)
    return {
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


def bad_news(result: dict[str, Any]) -> str | None:
    """What the result is against, and what to do about it; None where the audit passes."""
    one_run = result["one_run"]
    if (
        result["epsilon_lower_bound"] > result["epsilon_claimed"]
        or one_run["epsilon_lower_bound"] > one_run["epsilon_claimed"]
    ):
        return "the honest system leaks more than it claims: stop all runs and look for the fault"
    missed = [str(fault["name"]) for fault in result["faults"] if not fault["caught"]]
    return f"the audit misses {', '.join(missed)}: give it more --runs" if missed else None


def _tested(
    name: str,
    path: PathFor,
    units: int,
    runs: int,
    delta: float,
    confidence: float,
    claimed: float,
    progress: Callable[[str], None],
) -> Finding:
    progress(f"{name}: {runs} trainings on each neighbour")
    mechanism = audited(units)
    neighbours = worst_neighbours(units, 1, MAGNITUDE)
    return neighbour_test(path(mechanism), mechanism, neighbours, runs, delta, confidence, claimed)


def _one_run(confidence: float, progress: Callable[[str], None]) -> dict[str, Any]:
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


def show(result: dict[str, Any]) -> None:
    """For people."""
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
