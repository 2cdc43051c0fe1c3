"""What an accountant needs to know about a run, and nothing else; what ledgers store.

An `Event` is a sequence of Gaussian releases. Its `noise_multiplier` is σ over the REPLACE-ONE sensitivity of the sum
that is released, whatever the neighbouring relation: one meaning in the whole repository, because libraries differ by
a factor of two here (see `accountants`).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from parley.privacy.errors import InvalidParameterError
from parley.privacy.sampling import FixedSize, Sampler, require_whole, sampler_from_json, store_float

LARGEST_COUNT = 10_000_000
SMALLEST_NOISE, LARGEST_NOISE = 0.05, 1e7
"""Below, one release has an ε of hundreds; above, it shows nothing. Neither is a setting, both are mistakes."""


class NeighbouringRelation(Enum):
    """Which data sets count as neighbours."""

    REPLACE_ONE = "replace-one"
    """One unit's data are exchanged for any other; sizes are public. What parley claims."""
    ADD_OR_REMOVE = "add-or-remove"
    """One unit joins or leaves. For comparison with other systems only: party sizes are public in the manifest."""


@dataclass(frozen=True)
class SampledGaussian:
    """`count` releases of a sum over a fresh batch, each with Gaussian noise."""

    sampler: Sampler
    noise_multiplier: float
    count: int

    def __post_init__(self) -> None:
        store_float(self, "noise_multiplier", "noise multiplier")
        if not SMALLEST_NOISE <= self.noise_multiplier <= LARGEST_NOISE:
            raise InvalidParameterError(
                f"noise multiplier is {self.noise_multiplier:g}: give one from {SMALLEST_NOISE} to {LARGEST_NOISE:g}"
            )
        require_whole("rounds", self.count, 1, LARGEST_COUNT)


@dataclass(frozen=True)
class Event:
    """Everything one unit of privacy is exposed to in a run."""

    releases: tuple[SampledGaussian, ...]
    relation: NeighbouringRelation = NeighbouringRelation.REPLACE_ONE

    def __post_init__(self) -> None:
        if self.relation is NeighbouringRelation.ADD_OR_REMOVE and any(
            isinstance(release.sampler, FixedSize) and release.sampler.batch < release.sampler.units
            for release in self.releases
        ):
            raise InvalidParameterError(
                "a fixed batch size has no meaning under add-or-remove: use replace-one, or poisson"
            )

    @property
    def count(self) -> int:
        """How many releases there are in all."""
        return sum(release.count for release in self.releases)

    @property
    def overflow_probability(self) -> float:
        """A bound on the probability that any padded batch of the run had to drop a draw."""
        return min(1.0, sum(release.count * release.sampler.overflow_probability for release in self.releases))

    def first(self, count: int) -> "Event":
        """The event of a run that ended after `count` releases."""
        require_whole("releases", count, 0, self.count)
        kept: list[SampledGaussian] = []
        for release in self.releases:
            taken = min(count, release.count)
            if taken:
                kept.append(SampledGaussian(release.sampler, release.noise_multiplier, taken))
            count -= taken
        return Event(tuple(kept), self.relation)

    def with_noise(self, noise_multiplier: float) -> "Event":
        """The same run at another noise, for calibration."""
        return Event(
            tuple(SampledGaussian(release.sampler, noise_multiplier, release.count) for release in self.releases),
            self.relation,
        )

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers keep."""
        return {
            "relation": self.relation.value,
            "releases": [
                {
                    "sampler": release.sampler.as_json(),
                    "noise_multiplier": release.noise_multiplier,
                    "count": release.count,
                }
                for release in self.releases
            ],
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Event":
        """The inverse of `as_json`; anything else is refused."""
        try:
            return cls(
                tuple(
                    SampledGaussian(sampler_from_json(item["sampler"]), item["noise_multiplier"], item["count"])
                    for item in body["releases"]
                ),
                NeighbouringRelation(body["relation"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"not an accounting event ({error}): store what Event.as_json returns"
            ) from None
