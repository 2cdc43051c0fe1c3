"""The mechanism of a run: sampler, unit of privacy, clip norms, noise and accounting event as ONE immutable object.

Batches are drawn, gradients clipped and the noise's deviation read through a `Mechanism` and nowhere else, and its
`event` is derived from the same fields, so nothing can draw a batch or scale a noise that is not accounted. Implements
the privacy side of DDP-SRM (Wang, Jayaraman, Evans and Gu, Algorithm 2) and of every single-gradient method. Imports
numpy and the rest of `privacy` only; it stays light, for a party holds it for days.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from parley.privacy.canonical import digest_of
from parley.privacy.clipping import Clip, clip_from_json
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import LARGEST_COUNT, Event, NeighbouringRelation, SampledGaussian
from parley.privacy.randomness import Randomness
from parley.privacy.sampling import Batch, Sampler, require_in_range, require_whole, sampler_from_json, store_float


@dataclass(frozen=True)
class Unit:
    """Whose data one guarantee covers: a row, or all rows that share a value of `column`."""

    column: str | None = None

    def __post_init__(self) -> None:
        if self.column is not None and not (isinstance(self.column, str) and self.column.strip()):
            raise InvalidParameterError(
                "the unit's column is empty: name a column, or leave it out to protect single rows"
            )

    @property
    def name(self) -> str:
        """As the guarantee's sentence has it. One person in k institutions has k contributions, hence the pair."""
        return "row" if self.column is None else f"({self.column}, institution)"


ROW = Unit()


@dataclass(frozen=True)
class Cohort:
    """One party's units and how they are sampled."""

    party: str
    sampler: Sampler
    initial_sampler: Sampler | None = None
    """For the first release of DDP-SRM (b0 of the paper), where it differs."""

    def __post_init__(self) -> None:
        if not (isinstance(self.party, str) and self.party.strip()):
            raise InvalidParameterError("a party's name is empty: give each party a name")
        if self.initial_sampler is not None and (
            self.initial_sampler.units != self.sampler.units or self.initial_sampler.kind != self.sampler.kind
        ):
            raise InvalidParameterError(
                f"{self.party}: the first batch must be drawn from the same units in the same way"
            )


@dataclass(frozen=True)
class Mechanism:
    """Everything about a run that its privacy depends on."""

    cohorts: tuple[Cohort, ...]
    clip: Clip
    noise_multiplier: float
    """Standard deviation of the sum's noise over the sum's replace-one sensitivity, in every release."""
    steps: int
    """T; DDP-SRM releases T + 1 estimators, every other method T."""
    unit: Unit = ROW
    relation: NeighbouringRelation = NeighbouringRelation.REPLACE_ONE

    def __post_init__(self) -> None:
        if not self.cohorts:
            raise InvalidParameterError("a mechanism needs at least one party")
        if len({cohort.party for cohort in self.cohorts}) < len(self.cohorts):
            raise InvalidParameterError("two parties have one name: name each party once")
        if len({cohort.sampler.kind for cohort in self.cohorts}) > 1:
            raise InvalidParameterError("parties sample in different ways: choose wor or poisson for all of them")
        if not self.clip.extra_releases and any(cohort.initial_sampler for cohort in self.cohorts):
            raise InvalidParameterError("only the recursive estimator has a first batch of its own: leave it out")
        store_float(self, "noise_multiplier", "noise multiplier")
        require_whole("rounds", self.steps, 1, LARGEST_COUNT - 1)
        for round_index in {0, self.releases - 1}:
            require_in_range("the noise's deviation", self.noise_deviation(round_index))
        # Builds every event once, so that a mechanism that cannot be accounted cannot be held either.
        for cohort in self.cohorts:
            self._event(cohort)

    @property
    def releases(self) -> int:
        """How many noised sums the run opens."""
        return self.steps + self.clip.extra_releases

    def sensitivity(self, round_index: int) -> float:
        """How far replacing one unit can move the released sum, in Euclidean norm."""
        return 2 * self.clip.contribution_bound(self._round(round_index))

    def noise_deviation(self, round_index: int) -> float:
        """σ_t, on the scale of the sum. It does not depend on the batch, nor on how many parties are present.

        Rounded up: what is accounted is a multiplier of which the noise must not fall short by a last digit either.
        """
        sensitivity = self.sensitivity(round_index)
        nearest = self.noise_multiplier * sensitivity
        if not math.isfinite(nearest) or Fraction(nearest) >= Fraction(self.noise_multiplier) * Fraction(sensitivity):
            return nearest
        return math.nextafter(nearest, math.inf)

    def sampler(self, party: str, round_index: int) -> Sampler:
        """How the party's batch of this release is drawn."""
        cohort = self._cohort(party)
        if self._round(round_index) == 0 and cohort.initial_sampler is not None:
            return cohort.initial_sampler
        return cohort.sampler

    def draw(self, party: str, round_index: int, source: Randomness) -> Batch:
        """The party's batch of this release. Call once per release: a second draw is a second exposure."""
        return self.sampler(party, round_index).draw(source)

    def expected_batch(self, round_index: int, present: frozenset[str] | None = None) -> int:
        """The divisor of the estimator: the public expected batch of the parties that took part."""
        parties = {cohort.party for cohort in self.cohorts} if present is None else present
        samplers = [self.sampler(party, round_index) for party in sorted(parties)]
        return sum(sampler.mean_batch for sampler in samplers)

    def event(self, party: str) -> Event:
        """What one unit of this party is exposed to in the whole run."""
        return self._event(self._cohort(party))

    def _event(self, cohort: Cohort) -> Event:
        releases = [SampledGaussian(cohort.sampler, self.noise_multiplier, self.steps)]
        if self.clip.extra_releases:
            first = cohort.initial_sampler or cohort.sampler
            if first == cohort.sampler:
                releases = [SampledGaussian(first, self.noise_multiplier, self.steps + 1)]
            else:
                releases.insert(0, SampledGaussian(first, self.noise_multiplier, 1))
        return Event(tuple(releases), self.relation)

    def events(self) -> dict[str, Event]:
        """Every party's event. Other parties' batches condition away, so each stands at its own rate."""
        return {cohort.party: self._event(cohort) for cohort in self.cohorts}

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers and manifests keep."""
        return {
            "cohorts": [
                {
                    "party": cohort.party,
                    "sampler": cohort.sampler.as_json(),
                    "initial_sampler": cohort.initial_sampler.as_json() if cohort.initial_sampler else None,
                }
                for cohort in self.cohorts
            ],
            "clip": self.clip.as_json(),
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "unit": self.unit.column,
            "relation": self.relation.value,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Mechanism":
        """The inverse of `as_json`; anything else is refused."""
        try:
            mechanism = cls(
                tuple(
                    Cohort(
                        item["party"],
                        sampler_from_json(item["sampler"]),
                        sampler_from_json(item["initial_sampler"]) if item["initial_sampler"] else None,
                    )
                    for item in body["cohorts"]
                ),
                clip_from_json(body["clip"]),
                body["noise_multiplier"],
                body["steps"],
                Unit(body["unit"]),
                NeighbouringRelation(body["relation"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameterError(f"not a mechanism ({error}): store what Mechanism.as_json returns") from None
        if digest_of(mechanism.as_json()) != digest_of(body):
            raise InvalidParameterError("not a mechanism: it has fields that are not accounted, remove them")
        return mechanism

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return digest_of(self.as_json())

    def _round(self, round_index: int) -> int:
        return require_whole("round", round_index, 0, self.releases - 1)

    @cached_property
    def _by_party(self) -> dict[str, Cohort]:
        """A manifest may list thousands, and what is read of it asks for each of them."""
        return {cohort.party: cohort for cohort in self.cohorts}

    def _cohort(self, party: str) -> Cohort:
        found = self._by_party.get(party)
        if found is None:
            known = ", ".join(cohort.party for cohort in self.cohorts)
            raise InvalidParameterError(f"no party {party!r} in this run: it has {known}")
        return found
