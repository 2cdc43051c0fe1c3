"""A whole federation in one process, for research: the same party and coordinator code, the secure sum in the clear.

What two servers would open, Σ of the parties' integers plus noise of the servers' very law on the very lattice
(parley.mpc.clear), is computed here by one process that knows everything: its results are those of a federation, its
privacy is not. A seed makes a run repeatable, and a repeatable run's noise is known to whoever has the seed.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Plan
from parley.algorithms.registry import query_of
from parley.learning.contributor import Contributor, Encoding
from parley.learning.models import Model
from parley.learning.records import Records, of_units
from parley.mpc.clear import ClearSampler
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.randomness import Csprng
from parley.mpc.tables import Precision, load
from parley.privacy.accountants import accountant, worst_party
from parley.privacy.calibration import smallest_noise
from parley.privacy.claim import Claim
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.sampling import FixedSize, Poisson, Sampler

Floats = NDArray[np.float64]

BUFFER = 1 << 16


def seeded_stream(label: str, seed: int) -> Csprng:
    """The stream cipher keyed by a label and a seed: repeatable, hence no protection."""
    return Csprng(hashlib.sha256(f"parley simulation {label} {seed}".encode()).digest())


class SeededRandomness:
    """A repeatable stream behind the product's randomness protocol: for simulation and tests, never for a party."""

    def __init__(self, label: str, seed: int) -> None:
        self._rng = seeded_stream(label, seed)
        self._buffer = b""
        self._at = 0

    def read(self, count: int) -> bytes:
        if count > BUFFER:
            return self._rng.bytes(count)
        if self._at + count > len(self._buffer):
            self._buffer, self._at = self._rng.bytes(BUFFER), 0
        found = self._buffer[self._at : self._at + count]
        self._at += count
        return found


@dataclass(frozen=True)
class Calibrated:
    """A mechanism with the noise that reaches (ε, δ), or with the multiplier that was asked for."""

    mechanism: Mechanism
    epsilon: float
    """Of exact Gaussian noise, unless there is a claim"""
    delta: float
    accountant: str
    precision: Precision = "standard"
    """Of the servers' tables"""
    claim: Claim | None = None
    """With the finite sampler's terms: see parley.study.certified"""
    parts: NoiseParts = JOINT
    """Of the servers' noise: without own parts where nothing else is said."""


def mechanism_of(
    plan: Plan, sizes: dict[str, int], delta: float, noise_multiplier: float, unit: Unit, epsilon: float = 0.0
) -> Mechanism:
    """Every party at the same rate, rounded: each is accounted at its own. `epsilon` is what the run aims at."""
    allowance = Poisson.overflow_allowance(delta, epsilon)
    total = sum(sizes.values())
    cohorts = []
    for party, units in sizes.items():
        initial = _sampler(plan, plan.initial_batch, units, total, allowance) if plan.initial_batch else None
        cohorts.append(Cohort(party, _sampler(plan, plan.batch, units, total, allowance), initial))
    return Mechanism(tuple(cohorts), plan.clip, noise_multiplier, plan.steps, unit)


def _sampler(plan: Plan, batch: int, units: int, total: int, allowance: float) -> Sampler:
    share = min(units, max(1, round(batch * units / total)))
    if plan.sampling == "poisson" and share < units:
        return Poisson.with_overflow(units, share, plan.releases, allowance)
    if plan.sampling not in ("wor", "poisson"):
        raise InvalidParameterError(f"sampling is {plan.sampling!r}: use wor or poisson")
    if plan.sampling == "poisson":
        return Poisson(units, units, units)
    return FixedSize(units, share)


def calibrate(
    plan: Plan,
    sizes: dict[str, int],
    epsilon: float,
    delta: float,
    name: str = "pld",
    unit: Unit | None = None,
    parts: NoiseParts = JOINT,
) -> Calibrated:
    """The smallest noise at which the worst party's units have (ε, δ)."""
    mechanism = mechanism_of(plan, sizes, delta, 1.0, unit or Unit(), epsilon)
    if not plan.private:
        return Calibrated(mechanism, float("inf"), delta, "none", parts=parts)
    chosen = accountant(name)
    events: set[Event] = set(mechanism.events().values())
    noise = max(smallest_noise(chosen, event, epsilon, delta)[0] for event in events)
    mechanism = replace(mechanism, noise_multiplier=noise)
    _, reading = worst_party(chosen, mechanism, delta)
    return Calibrated(mechanism, reading.epsilon, delta, name, parts=parts)


@dataclass(frozen=True)
class Outcome:
    """One run's result."""

    theta: Floats
    seconds: float
    cpu_seconds: float
    releases: int
    """Made; fewer than the mechanism's where the algorithm had finished"""


class Early(Protocol):
    """Decides on public facts whether a run stops before its last round, and which of its models is kept."""

    def __call__(self, round_index: int, releases: int, algorithm: Algorithm) -> bool: ...

    @property
    def best(self) -> Floats | None: ...

    @property
    def chosen(self) -> int | None: ...


class Federation:
    """Parties, lattices and noise of one run; `run` plays it to the end."""

    def __init__(
        self,
        algorithm: Algorithm,
        plan: Plan,
        model: Model,
        parties: dict[str, Records],
        mechanism: Mechanism,
        seed: int,
        *,
        noise: bool = True,
        precision: Precision = "standard",
        parts: NoiseParts = JOINT,
        start: Floats | None = None,
        early: Early | None = None,
    ) -> None:
        """`start` is θ_0 where it is not the model's own; `early` is asked after each round whether to stop."""
        self._start, self.early = start, early
        self.algorithm, self.plan, self.model, self.mechanism = algorithm, plan, model, mechanism
        self.noise = noise and plan.private
        tables = load("strips", precision)
        self.encoding = Encoding.of(mechanism, tables.format.scale_bits, model.largest_limit, parts)
        self.sampler = ClearSampler(tables, seeded_stream("noise", seed))
        self.public = SeededRandomness("public", seed)
        self.parties = [
            Contributor(party, records, model, self.encoding, SeededRandomness(f"party {party}", seed))
            for party, records in parties.items()
        ]

    def start(self) -> Floats:
        """θ_0, from public randomness or a public model file."""
        if self._start is not None:
            return self._start.copy()
        words = np.frombuffer(self.public.read(8 * self.model.dimension), "<u8").astype(np.uint64)
        return self.model.initial(words)

    def noise_level(self) -> float:
        """Per coordinate of the estimates that follow the first, own parts included; 0 where there is no noise."""
        last = self.mechanism.releases - 1
        deviation = self.mechanism.noise_deviation(last) * self.encoding.parts.excess
        return deviation / self.mechanism.expected_batch(last) if self.noise else 0.0

    def run(self, watch: Callable[[int, Floats], None] | None = None) -> Outcome:
        """`watch` is shown the number of releases made and the iterate, for figures."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.algorithm.begin(self.plan, self.start(), self.noise_level(), self.public)
        made, stop = 0, False
        while made < self.mechanism.releases and not (stop or self.algorithm.finished(made)):
            self.algorithm.tell(made, self.round(made))
            stop = self.early is not None and self.early(made, self.mechanism.releases, self.algorithm)
            made += 1
            if watch:
                watch(made, self.algorithm.theta)
        best = self.early.best if self.early else None
        theta = self.algorithm.result() if best is None else best
        return Outcome(theta, time.perf_counter() - wall, time.process_time() - cpu, made)

    def round(self, round_index: int) -> Floats:
        """The noised mean over the expected batch, as the coordinator would decode it."""
        ask = self.algorithm.ask(round_index)
        query = query_of(round_index, ask)
        total = sum(party.contribution(query) for party in self.parties)
        lattice = self.encoding.lattice(round_index)
        if self.noise:
            total = total + self.sampler.release(lattice, len(np.atleast_1d(total)))
        return np.asarray(lattice.decode(np.asarray(total)) / self.mechanism.expected_batch(round_index))


def split(records: Records, parties: int, seed: int) -> dict[str, Records]:
    """A pooled file over simulated parties of nearly equal size, shuffled (section 6 of the core paper)."""
    if parties == 1:
        return {"party-1": records}
    order = permutation(records.units, SeededRandomness("split", seed))
    parts = np.array_split(order, parties)
    return {f"party-{index + 1}": of_units(records, np.sort(part)) for index, part in enumerate(parts)}


def permutation(count: int, randomness: SeededRandomness) -> NDArray[np.int64]:
    words = np.frombuffer(randomness.read(8 * count), "<u8")
    # Equal words would order by position: one chance in 2^64 per pair, and the order is no secret.
    return np.argsort(words, kind="stable").astype(np.int64)
