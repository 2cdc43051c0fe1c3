"""What a run would cost, before anybody is asked: figures, a sentence, and what each adversary could learn.

A plan of two parties and more is read off the manifest itself, drafted and verified as `parley manifest` does; names
that the study does not have yet are filled in, and no figure depends on them.
"""

import html
import math
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from parley.federation.manifest import Manifest, Operator
from parley.federation.meaning import Meaning, verify
from parley.models.module_spec import is_module
from parley.mpc.parts import NoiseParts
from parley.privacy.claim import Claim
from parley.privacy.lying import NO_GUARANTEE
from parley.privacy.mechanism import Mechanism
from parley.study.card import central_statement
from parley.study.certified import calibrated_for
from parley.study.errors import StudyError
from parley.study.manifests import drafted
from parley.study.simulation import Calibrated

if TYPE_CHECKING:
    from parley.study.study import Study

ONE_SITE = "site"
"""The name of a single party that has none."""
PLACEHOLDERS: dict[str, Any] = {
    "run": "plan",
    "federation": "plan",
    "aggregators": (Operator("north", "One Organisation"), Operator("south", "Another Organisation")),
    "coordinator": Operator("lead", "Study Group"),
}
COLLUDING = "anything: they see everything, so they must be two organisations that do not collude"
NO_INTERCEPT = (
    "intercept is false: the model gives an average record no free score; write intercept = true, unless meant"
)
MOST_TIMES = 1e4
SCREEN = 80
"""Columns of a terminal that nobody has made wider."""


@dataclass(frozen=True)
class Adversary:
    """Somebody who wants to know one record, and what bounds what they can learn of it.

    >>> liar = study.read("study.toml").plan().adversaries[3]
    >>> liar.who, round(liar.epsilon, 2)
    ('one aggregator that lies', 2.44)
    """

    who: str
    epsilon: float | None
    """None: nothing is guaranteed against them."""
    learns: str
    """In words."""


@dataclass(frozen=True, repr=False)
class Plan:
    """A run's figures, computed as every node computes them from the manifest.

    >>> print(study.read("study.toml").plan(records=690))
    epsilon 1 at delta 1e-05 for each row: 224 rounds, about 64 of 690 in each, ...
    <BLANKLINE>
    Had one row been any other, what they see would be, but for a chance of 1e-05:
    <BLANKLINE>
    whoever gets only the model  at most 2.72 times as likely or as unlikely (epsilon 1)
    whoever trains it            anything: one process holds the records and knows the noise
    """

    epsilon: float
    """What the run costs each unit of privacy of the least protected party, at `delta`."""
    epsilon_if_a_server_lies: float | None
    """The same if one aggregator does anything whatever; None: no guarantee then."""
    delta: float
    rounds: int
    batch: float
    """Expected in a round, over all parties; of the rounds after the first."""
    noise_multiplier: float
    """Times the sensitivity of a round's sum."""
    own: float
    """What each server adds of its own, over what they sample together."""
    security: str
    audit: str | None
    """The share of the batches that each server audits, under `covert`."""
    unit: str
    """Whose privacy is counted."""
    parties: Mapping[str, int]
    statement: str
    """The guarantee in a sentence."""
    adversaries: tuple[Adversary, ...]
    advice: tuple[str, ...] = ()
    """What might not be meant."""

    def as_json(self) -> dict[str, Any]:
        """The fields of `parley study plan --json`.

        >>> study.read("study.toml").plan().as_json()["parties"]
        {'cleveland': 227, 'hungarian': 221, 'switzerland': 92, 'va': 150}
        """
        return {**asdict(self), "parties": dict(self.parties)}

    def __repr__(self) -> str:
        return f"Plan({self._head}; print it for who could learn what)"

    def __str__(self) -> str:
        beside = max(len(each.who) for each in self.adversaries) + 2
        rows = [
            textwrap.fill(each.learns, SCREEN, initial_indent=each.who.ljust(beside), subsequent_indent=" " * beside)
            for each in self.adversaries
        ]
        head, condition, *advice = (textwrap.fill(each, SCREEN) for each in (self._head, self._condition, *self.advice))
        return "\n".join([head, "", condition, "", *rows, *(("", *advice) if advice else ())])

    @property
    def _condition(self) -> str:
        return f"Had one {self.unit} been any other, what they see would be, but for a chance of {self.delta:.3g}:"

    @property
    def _head(self) -> str:
        units, count = sum(self.parties.values()), len(self.parties)
        whose = f"{count} parties" if count > 1 else "one site"
        return (
            f"epsilon {self.epsilon:.3g} at delta {self.delta:.3g} for each {self.unit}: {self.rounds:,} rounds, "
            f"about {self.batch:,.0f} of {units:,} in each, noise {self.noise_multiplier:.4g} times the sensitivity; "
            f"{whose}"
        )

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(each.who)}</td>"
            f"<td style='text-align:left'>{html.escape(each.learns)}</td></tr>"
            for each in self.adversaries
        )
        notes = "".join(f"<p>{html.escape(each)}</p>" for each in self.advice)
        return f"<p>{html.escape(self._head)}</p><p>{html.escape(self._condition)}</p><table>{rows}</table>{notes}"


def plan_of(study: "Study", records: int | Mapping[str, int] | None) -> Plan:
    """`Study.plan`."""
    if records is None:
        records = study.parties or _counted(study)
    sizes = dict(records) if isinstance(records, Mapping) else {ONE_SITE: records}
    for name, units in sizes.items():
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            raise StudyError(f"records of {name} are {units!r}: give a whole number of at least 1")
    study.new_algorithm()  # a central method has no plan, and says where it runs
    if len(sizes) < 2:
        plan = of_calibrated(study, calibrated_for(study, sizes))
        if plan is None:
            raise StudyError(f"{study.algorithm['name']} is not private: choose an algorithm that is")
        return plan
    return of_meaning(study, verify(drafted(study, sizes, **PLACEHOLDERS)))


def _counted(study: "Study") -> dict[str, int]:
    """How many units the study's files hold, which is public; everything else of them stays unread."""
    from parley.study.data import sets_of

    if study.data is None or not (study.data.parties or study.data.train):
        raise StudyError("how many records? Give records, name [[parties]] with their units, or files in [data]")
    return sets_of(study).sizes()


def of_meaning(study: "Study", meaning: Meaning) -> Plan:
    """Of a manifest, verified."""
    manifest: Manifest = meaning.manifest
    lying = meaning.epsilon_if_a_server_lies
    return _plan(study, manifest.mechanism, manifest.noise.parts, meaning.epsilon, lying, meaning.statement)


def of_calibrated(study: "Study", found: Calibrated) -> Plan | None:
    """Of a simulation's mechanism; None where there is no claim."""
    if found.claim is None:
        return None
    claim: Claim = found.claim
    return _plan(study, found.mechanism, found.parts, claim.epsilon, claim.epsilon_if_a_server_lies, claim.sentence)


def _plan(
    study: "Study", mechanism: Mechanism, parts: NoiseParts, epsilon: float, lying: float | None, statement: str
) -> Plan:
    sizes = {cohort.party: mechanism.sampler(cohort.party, 0).units for cohort in mechanism.cohorts}
    if alone := len(sizes) == 1:
        lying, statement = None, central_statement(mechanism, epsilon, study.delta, study.accountant)
    biased = study.model["kind"] == "perceptron" or is_module(study.model["kind"])
    advice = (NO_INTERCEPT,) if not (study.schema.intercept or biased) else ()
    return Plan(
        epsilon=float(epsilon),
        epsilon_if_a_server_lies=None if lying is None else float(lying),
        delta=study.delta,
        rounds=mechanism.releases,
        batch=float(mechanism.expected_batch(mechanism.releases - 1)),
        noise_multiplier=float(mechanism.noise_multiplier),
        own=parts.own,
        security=parts.security,
        audit=parts.audit,
        unit=mechanism.unit.name,
        parties=sizes,
        statement=statement,
        adversaries=_alone(epsilon) if alone else _together(parts, epsilon, lying),
        advice=advice,
    )


def _together(parts: NoiseParts, epsilon: float, lying: float | None) -> tuple[Adversary, ...]:
    held = bound(epsilon)
    liar = epsilon if not parts.joint else lying
    either = held if not parts.joint else NO_GUARANTEE if lying is None else bound(lying)
    if parts.audits:
        either = f"{either}. {parts.audits}"
    return (
        Adversary("the coordinator", epsilon, held),
        Adversary("all other parties together", epsilon, held),
        Adversary("one aggregator that follows the protocol", epsilon, f"{held}, also with all of the above"),
        Adversary("one aggregator that lies", liar, either),
        Adversary("both aggregators together", None, COLLUDING),
        Adversary("whoever gets only the model", epsilon, f"{held}, and less than the above"),
    )


def _alone(epsilon: float) -> tuple[Adversary, ...]:
    return (
        Adversary("whoever gets only the model", epsilon, bound(epsilon)),
        Adversary("whoever trains it", None, "anything: one process holds the records and knows the noise"),
    )


def bound(epsilon: float) -> str:
    """What ε allows somebody to see, in words."""
    times = math.exp(min(epsilon, 50.0))
    shown = f"{times:.3g}" if times < MOST_TIMES else f"e^{epsilon:.3g}"
    return f"at most {shown} times as likely or as unlikely (epsilon {epsilon:.3g})"
