"""A study tried with several ε, models and algorithms on the same records, and the price of having looked at all of it.

Every fit whose figures are shown is paid for, also those that nobody keeps: the records were looked at. All of a sweep
is fixed before its first fit, so that an accountant can count it as one: that is less than adding up. Nothing is chosen
here unless somebody asks, and then only by public records.
"""

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from parley.privacy.accountants import accountant
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.finite_precision import FinitePrecision, gaussian_reading
from parley.study.batch_runs import Prepared, prepare, require_backend, spreading
from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING
from parley.study.open_records import PRIVATE
from parley.study.plan import SCREEN
from parley.study.result import NOT_PRIVATE, OPEN_RECORDS, Result
from parley.study.simulate import claimed, drawn_sets, require_counts, result_of

if TYPE_CHECKING:
    from parley.study.study import Study

MOST_FITS = 1000
SAMPLERS_SHARE = 0.3
"""Of δ that the noise sampler's terms of all fits together may take: more than of one fit, for they grow with e^ε."""
SHOWN = ("loss", "accuracy", "auc", "rmse", "r2")
"""Of the figures, in a table that is to fit a screen; accuracy only where there is no AUC."""
SMALLER_IS_BETTER = ("loss", "rmse", "mae", "brier")
UNRANKED = ("calibration_slope",)


@dataclass(frozen=True)
class Cost:
    """What all fits of a sweep cost each unit together."""

    fits: int
    epsilon: float
    delta: float
    composed: bool
    """By the accountant; else ε is added up, as δ is."""


@dataclass(frozen=True)
class Sweep:
    """What `Study.sweep` gives: every combination's result, and what all of them cost together.

    >>> s = study.read("study.toml")
    >>> rows = s.made_up(300)
    >>> found = s.sweep(rows, epsilon=[1.0, 3.0], test=s.made_up(300, seed=1))
    >>> [each.study.epsilon for each in found.results], found.cost is None
    ([1.0, 3.0], True)
    """

    results: tuple[Result, ...]
    """Of each combination, in the order of the arguments."""
    cost: Cost | None
    """None where nothing was spent, or nothing is guaranteed."""

    def best(self, measure: str) -> Result:
        """The result with the best mean of a figure; refused where the choice would tell of private records.

        >>> s = study.read("study.toml")
        >>> rows = s.made_up(300)
        >>> s.sweep(rows, epsilon=[1.0, 3.0], test=s.made_up(300, seed=1)).best("auc").study.epsilon in (1.0, 3.0)
        True
        """
        first = self.results[0]
        if not first.public_test and first.fit.records == PRIVATE:
            raise StudyError(
                "the test set is a part of the records, so the best of these would tell of it what no epsilon counts: "
                "give a public test set"
            )
        names = [name for name in first.quality if name not in UNRANKED]
        if measure not in names:
            raise StudyError(f"no figure {measure!r} to choose by: use {', '.join(names)}")
        sign = -1 if measure in SMALLER_IS_BETTER else 1
        return max(self.results, key=lambda each: sign * each.quality[measure].mean)

    def as_json(self) -> dict[str, Any]:
        """For scripts; `not_private` names what is for whoever ran it alone."""
        private = self.results[0].fit.records == PRIVATE
        return {
            "trials": [
                {**_choice(each), "quality": {name: vars(found) for name, found in each.quality.items()}}
                for each in self.results
            ],
            "cost": None if self.cost is None else vars(self.cost),
            "not_private": ["trials"] if private else [],
        }

    def __str__(self) -> str:
        rows = [self._head, *self._rows]
        widths = [max(len(row[index]) for row in rows) for index in range(len(self._head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, "", *(textwrap.fill(each, SCREEN) for each in self.remarks)])

    def _repr_html_(self) -> str:
        """For notebooks."""

        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row(each, "td") for each in self._rows)
        notes = "".join(f"<p>{html.escape(each)}</p>" for each in self.remarks)
        return f"<table>{row(self._head, 'th')}{body}</table>{notes}"

    @property
    def _measures(self) -> list[str]:
        found = [name for name in SHOWN if all(name in each.quality for each in self.results)]
        return [name for name in found if name != "accuracy" or "auc" not in found]

    @property
    def _head(self) -> list[str]:
        return ["epsilon", "model", "algorithm", *(name.replace("_", " ") for name in self._measures)]

    @property
    def _rows(self) -> list[list[str]]:
        return [
            [f"{each.study.epsilon:g}", _named(each.study.model, "kind"), _named(each.study.algorithm, "name")]
            + [str(each.quality[name]) for name in self._measures]
            for each in self.results
        ]

    @property
    def remarks(self) -> list[str]:
        """What a reader of the table must know."""
        first = self.results[0]
        if first.fit.records != PRIVATE:
            return [OPEN_RECORDS.format(first.fit.records)]
        if self.cost is None:
            return [NOT_PRIVATE, "No guarantee was computed, so none of these models protects anybody."]
        unit = first.fit.mechanism.unit.name
        how = f"by accountant {first.study.accountant}" if self.cost.composed else "added up"
        return [
            NOT_PRIVATE,
            f"All {self.cost.fits} fits were shown, so all are paid for: together they cost each {unit} epsilon "
            f"{self.cost.epsilon:.3g} at delta {self.cost.delta:.3g}, {how}. The card of every model saved from here "
            "says so.",
        ]


def sweep(
    study: "Study",
    data: Any,
    choices: Mapping[str, Sequence[Any]],
    *,
    test: Any,
    seeds: int,
    repeatable: bool,
    workers: int,
    public: bool,
    backend: str = "local",
) -> Sweep:
    """`Study.sweep`."""
    require_counts(seeds, workers)
    require_backend(backend)
    given = {name: found for name, values in choices.items() if (found := _listed(name, values))}
    combined = [study.replaced(**dict(zip(given, each, strict=True))) for each in product(*given.values())]
    if len(combined) * seeds > MOST_FITS:
        raise StudyError(f"that would be {len(combined) * seeds:,} fits: ask for at most {MOST_FITS:,}")
    for each in combined:
        each.new_algorithm()  # a central method has another door, and says which
    sets = drawn_sets(study, data, test, repeatable, public)
    prepared = [prepare(each, sets, certified=True) for each in combined]
    cost = None
    if all(claimed(each, repeatable) for each in prepared):
        cost = cost_of(prepared, seeds)
        SPENDING.charge(sets.rows, cost.epsilon, cost.delta, cost.fits)
    else:
        for one in prepared:
            if claimed(one, repeatable):
                for _ in range(seeds):
                    SPENDING.charge(sets.rows, one.calibrated.epsilon, one.study.delta)
    with spreading(backend, workers) as spread:
        return Sweep(tuple(result_of(each, seeds, repeatable, spread) for each in prepared), cost)


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | Mapping | int | float):
        raise StudyError(f"{name} is one value: give a list of those to be tried")
    return list(values)


def cost_of(prepared: Sequence[Prepared], seeds: int) -> Cost:
    """Of all fits together, at the sum of their δ: by the accountant, where each unit stays with one party."""
    count, first = len(prepared) * seeds, prepared[0]
    added = Cost(
        count,
        sum(seeds * each.calibrated.epsilon for each in prepared),
        sum(seeds * each.study.delta for each in prepared),
        composed=False,
    )
    if len(first.sets.shares) > 1 or count == 1:
        return added  # shared out anew for each fit, so that a unit meets other parties' samplers
    claims = [each.calibrated.claim for each in prepared]
    terms = [claim.precision for claim in claims if claim is not None]
    whole = FinitePrecision(
        seeds * sum(each.samples for each in terms),
        seeds * sum(each.xi for each in terms),
        seeds * sum(each.hop_delta for each in terms),
        seeds * sum(each.tail_delta for each in terms),
    )
    chosen = accountant(first.study.accountant)
    try:
        readings = [
            gaussian_reading(whole, chosen, _together(prepared, party, seeds), added.delta, SAMPLERS_SHARE).epsilon
            for party in first.mechanism.events()
        ]
    except (ConditionsUnmetError, InvalidParameterError):
        return added
    return Cost(count, min(added.epsilon, max(readings) + whole.epsilon_added), added.delta, composed=True)


def _together(prepared: Sequence[Prepared], party: str, seeds: int) -> Event:
    """Everything that a unit of this party is exposed to in all fits."""
    releases: list[SampledGaussian] = []
    for each in prepared:
        for release in each.mechanism.events()[party].releases:
            releases.append(SampledGaussian(release.sampler, release.noise_multiplier, release.count * seeds))
    return Event(tuple(releases), prepared[0].mechanism.relation)


def _choice(result: Result) -> dict[str, Any]:
    return {
        "epsilon": result.study.epsilon,
        "model": result.study.model,
        "algorithm": result.study.algorithm,
        "rounds": result.fit.rounds,
    }


def _named(table: Mapping[str, Any], name: str) -> str:
    more = ", ".join(f"{key} {value}" for key, value in table.items() if key != name)
    return f"{table[name]} ({more})" if more else str(table[name])
