"""Samplers: which units of privacy a release reads.

Two samplers are offered. `FixedSize` draws exactly `batch` of `units` without replacement (the sampling of Wang,
Jayaraman, Evans and Gu, Algorithms 1 and 2). `Poisson` includes each unit independently, which needs less noise, but
only while the drawn size stays secret: so its batch is always padded to a public `cap`, draws beyond it are dropped,
and the probability of that goes into δ (`overflow_probability`). A batch is drawn through `Mechanism.draw` only.

Each unit's place in a batch is drawn too. What floating point makes of a record may differ, in its last bit, with
the place where it stands, and rounding to a lattice makes a step of that. Were places in any other order, such
as the file's, one unit more or less would move others to other places, and each of them could change the sum.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from parley.privacy.errors import InvalidParameterError
from parley.privacy.randomness import Randomness, uniform_below_each, uniform_words

LARGEST_POPULATION = 1 << 40
SMALLEST, LARGEST = 1e-30, 1e30
"""Of clip norms, of γ from below, of deviations of noise and of a lattice's steps. Far inside what float64 holds to
2^-53 of its value: smaller numbers lose digits, and a step that lost some counts a record by more than its noise."""


def require_whole(name: str, value: object, low: int, high: int) -> int:
    """`value` as an integer of low … high, or one line that says what it should be."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidParameterError(f"{name} is {value!r}: give a whole number from {low} to {high}")
    return value


def require_positive(name: str, value: object) -> float:
    """`value` as a finite number above zero, or one line that says so."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise InvalidParameterError(f"{name} is {value!r}: give a finite number above 0")
    return float(value)


def require_in_range(name: str, value: object) -> float:
    """`value` as a float within what a run may count with, or one line that says what it should be."""
    number = require_positive(name, value)
    if not SMALLEST <= number <= LARGEST:
        raise InvalidParameterError(f"{name} is {number:g}: give a number from {SMALLEST:g} to {LARGEST:g}")
    return number


def store_float(holder: object, name: str, what: str, require: Callable[[str, object], float] | None = None) -> None:
    """Make a field of a frozen object a positive float: 4 and 4.0 must not have two digests."""
    object.__setattr__(holder, name, (require or require_positive)(what, getattr(holder, name)))


@dataclass(frozen=True)
class Batch:
    """A draw of public length: `indices: int64[length]`, and `present: bool[length]`, which is secret.

    A caller computes on every index and gives weight zero to those that are not present, so that time and memory do
    not depend on the draw.
    """

    indices: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]

    def placed(self, source: Randomness) -> "Batch":
        """In a uniformly random order: given the others' places, a unit and whoever is drawn for it share one place."""
        order = np.argsort(uniform_words(source, len(self.indices)), kind="stable")
        return Batch(self.indices[order], self.present[order])


@dataclass(frozen=True)
class FixedSize:
    """Exactly `batch` of `units`, uniformly without replacement."""

    units: int
    batch: int
    kind: ClassVar[str] = "wor"

    def __post_init__(self) -> None:
        require_whole("units", self.units, 1, LARGEST_POPULATION)
        require_whole("batch", self.batch, 1, LARGEST_POPULATION)
        if self.batch > self.units:
            raise InvalidParameterError(
                f"batch {self.batch} exceeds the {self.units} records: draw at most all of them"
            )

    @property
    def rate(self) -> float:
        """τ, the probability that a given unit is read."""
        return self.batch / self.units

    @property
    def mean_batch(self) -> int:
        """The public number that an estimator divides by."""
        return self.batch

    @property
    def length(self) -> int:
        """How many units a party computes on, whatever was drawn."""
        return self.batch

    @property
    def overflow_probability(self) -> float:
        """Nothing is ever dropped."""
        return 0.0

    def draw(self, source: Randomness) -> Batch:
        """Floyd's algorithm, on the smaller of the batch and its complement."""
        fewer = min(self.batch, self.units - self.batch)
        chosen: set[int] = set()
        tops = range(self.units - fewer, self.units)
        for top, candidate in zip(tops, uniform_below_each(source, [top + 1 for top in tops]), strict=True):
            chosen.add(top if candidate in chosen else candidate)
        if fewer == self.batch:
            indices = np.array(sorted(chosen), dtype=np.int64)
        else:
            indices = np.delete(np.arange(self.units, dtype=np.int64), np.array(sorted(chosen), dtype=np.int64))
        return Batch(indices, np.ones(self.batch, dtype=np.bool_)).placed(source)

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers and manifests keep."""
        return {"kind": self.kind, "units": self.units, "batch": self.batch}


@dataclass(frozen=True)
class Poisson:
    """Each of `units` independently at rate `expected / units`, padded to the public `cap`."""

    units: int
    expected: int
    cap: int
    kind: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        require_whole("units", self.units, 1, LARGEST_POPULATION)
        require_whole("expected batch", self.expected, 1, LARGEST_POPULATION)
        require_whole("cap", self.cap, 1, LARGEST_POPULATION)
        if self.expected > self.units:
            raise InvalidParameterError(
                f"batch {self.expected} exceeds the {self.units} records: draw at most all of them"
            )
        if not self.expected <= self.cap <= self.units:
            raise InvalidParameterError(
                f"cap {self.cap} must lie between the expected batch {self.expected} and the {self.units} records"
            )

    @staticmethod
    def overflow_allowance(delta: float, epsilon: float = 0.0) -> float:
        """What a run may overflow its cap with in all: a thousandth of δ, and less from ε = 2.2 on, for e^ε multiplies
        it (`accountants.with_overflow`) and it is to take no more than a hundredth of δ at the ε that is aimed at.
        """
        return delta * min(1e-3, 1e-2 / (1 + math.exp(min(epsilon, 700.0))))

    @classmethod
    def with_overflow(cls, units: int, expected: int, releases: int, allowance: float) -> "Poisson":
        """The smallest cap at which `releases` draws overflow with probability at most `allowance` in all."""
        require_positive("the allowance for overflow", allowance)
        low, high = expected, units
        while low < high:
            middle = (low + high) // 2
            if releases * cls(units, expected, middle).overflow_probability <= allowance:
                high = middle
            else:
                low = middle + 1
        return cls(units, expected, low)

    @property
    def rate(self) -> float:
        """τ; the rate that is drawn is the multiple of 2^-64 just below, and less sampling is never less private."""
        return self.expected / self.units

    @property
    def mean_batch(self) -> int:
        """The public number that an estimator divides by."""
        return self.expected

    @property
    def length(self) -> int:
        """How many units a party computes on, whatever was drawn."""
        return self.cap

    @property
    def overflow_probability(self) -> float:
        """P[Binomial(units, τ) > cap], from above: the first term times a geometric series at its largest ratio."""
        first = self.cap + 1
        if first > self.units:
            return 0.0
        if self.expected == self.units:
            return 1.0
        rate = self.rate
        log_term = (
            math.lgamma(self.units + 1)
            - math.lgamma(first + 1)
            - math.lgamma(self.units - first + 1)
            + first * math.log(rate)
            + (self.units - first) * math.log1p(-rate)
        )
        ratio = (self.units - first) / (first + 1) * rate / (1 - rate)
        if ratio >= 1:
            return 1.0
        # lgamma of numbers up to 1e12 is good to about 1e-16 of its value, 3e-3 absolute: hence the margin.
        margin = 1e-9 + 8e-16 * math.lgamma(self.units + 2)
        return min(1.0, math.exp(log_term + margin) / (1 - ratio))

    def draw(self, source: Randomness) -> Batch:
        """The `cap` units with the smallest words, of which those below the rate's threshold are present.

        Ranks are independent of how many words lie below the threshold, so neither the order of memory accesses nor
        the running time tells the size; and what overflows the cap is a uniformly random part of the draw.
        """
        words = uniform_words(source, self.units)
        threshold = (self.expected << 64) // self.units
        indices = np.argsort(words, kind="stable")[: self.cap].astype(np.int64)
        present = words[indices] < np.uint64(threshold) if threshold < 1 << 64 else np.ones(self.cap, dtype=np.bool_)
        return Batch(indices, present).placed(source)

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers and manifests keep."""
        return {"kind": self.kind, "units": self.units, "expected": self.expected, "cap": self.cap}


Sampler = FixedSize | Poisson


def sampler_from_json(body: dict[str, Any]) -> Sampler:
    """The inverse of `as_json`; anything else is refused."""
    match body:
        case {"kind": FixedSize.kind, "units": units, "batch": batch, **rest} if not rest:
            return FixedSize(units, batch)
        case {"kind": Poisson.kind, "units": units, "expected": expected, "cap": cap, **rest} if not rest:
            return Poisson(units, expected, cap)
    raise InvalidParameterError("sampler: give kind wor with units and batch, or poisson with units, expected and cap")
