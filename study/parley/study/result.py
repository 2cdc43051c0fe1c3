"""What a simulation found: one seed's model, and figures that are for the person who ran it alone.

What may leave this process is the model with its card. Figures over seeds, without privacy, or on records that were
held out are functions of private records: they are shown here, marked as such, and never saved.
"""

import html
import math
import statistics
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.model_archive import write_archive
from parley.learning.pictures import Example
from parley.learning.transforms import declared
from parley.study.batch_runs import mean_of
from parley.study.card import REPEATABLE, Fit, card_of, described
from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING, Past, Total
from parley.study.model_file import LoadedModel
from parley.study.open_records import PRIVATE
from parley.study.opened import code_of
from parley.study.plan import SCREEN, Plan

if TYPE_CHECKING:
    from parley.study.plots import Picture
    from parley.study.study import Study

CONFIDENCE = 0.95
PLOTS = ("curve", "examples")
NOT_PRIVATE = "Not private: these figures are for you alone."
FIGURES = ("runs", "mean", "quality", "without_privacy", "constant", "worse_than_guessing")
"""Of `as_json`: functions of the records without noise, or of more fits than one."""
WORSE = "Worse than guessing: the same answer for everybody does as well. More records or epsilon?"
OPEN_RECORDS = "The records are {}: nothing is charged for fits of them, and these figures are nobody's secret."
SHARES = ("accuracy", "auc", "average_precision")
SMALLER_IS_BETTER = ("loss", "rmse")
"""The first of these that there is says whether guessing does as well."""


@dataclass(frozen=True)
class Interval:
    """A figure over seeds: its mean, and Student's 95 % interval; None for its ends where there is one seed.

    >>> print(study.Interval(0.433, 0.428, 0.438))
    0.433 (0.428 to 0.438)
    """

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """0.433 (0.428 to 0.438)"""
        if self.low is None or self.high is None:
            return f"{self.mean:.3g}"
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


def interval(values: list[float], lowest: float = -math.inf, highest: float = math.inf) -> Interval:
    """Of the mean of independent runs."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    from scipy.special import stdtrit

    reach = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * statistics.stdev(values) / len(values) ** 0.5
    return Interval(mean, max(lowest, mean - reach), min(highest, mean + reach))


def limits(name: str) -> tuple[float, float]:
    """Between which a figure lies, whatever the model: a few seeds' interval is wide, and stops there."""
    if name.partition("[")[0] in SHARES:
        return 0.0, 1.0
    return (0.0 if name in ("loss", "brier", "rmse", "mae") else -math.inf), (1.0 if name == "r2" else math.inf)


@dataclass(frozen=True)
class Curve:
    """A figure on the test set over the rounds of the first seed; of the same training without noise beside it."""

    measure: str
    private: tuple[tuple[int, float], ...]
    without_privacy: tuple[tuple[int, float], ...]


@dataclass(frozen=True, repr=False)
class Result:
    """What `Study.simulate` gives: one seed's model, and figures that are for whoever ran it alone.

    >>> result = study.read("study.toml").simulate(seeds=1)
    >>> result.worse_than_guessing
    False
    >>> result.model.card["fits"] >= 1
    True
    """

    study: "Study"
    plan: Plan | None
    """None where there is no claim: the algorithm is not private, or its accountant certifies none."""
    fit: Fit
    """The first seed's: never the best one's, whose choice would be a release of its own."""
    runs: tuple[Mapping[str, Any], ...]
    figures: tuple[Mapping[str, float], ...]
    """Of each seed, on the test set."""
    without_privacy: Mapping[str, float]
    """The same training without noise: not private."""
    constant: Mapping[str, float]
    """The best answer that is the same for everybody: not private."""
    curve: Curve
    tested: int
    """Records in the test set."""
    public_test: bool
    """Whether it was given, and not held out of the records."""
    repeatable: bool
    """Whether anybody can compute the noise."""
    records: tuple[bytes, ...]
    """What the records' fits are counted by, in this process alone; a copy from another one has none."""
    examples: tuple[Example, ...] = ()
    """Right and wrong answers of the first seed's model, where the test set is public and its rows are pictures."""
    past: Past = field(default_factory=dict)
    """What the processes had counted that it came through."""

    @property
    def model(self) -> LoadedModel:
        """The first seed's, with the card that `save` would write now.

        A card counts all fits of this process: how many of them shared a record would tell of records.
        """
        card = card_of(self.study, self.fit, self.repeatable, SPENDING.with_past(self.past))
        return LoadedModel(self.fit.theta, described(self.study, self.fit.theta), card, code_of(self.study))

    @property
    def fits(self) -> int:
        """How many fits of these records this process has made: of the record that was in most of them."""
        return self._spent.fits

    @property
    def _spent(self) -> Total:
        return SPENDING.worst(self.records) if self.records else SPENDING.with_past(self.past)

    def __getstate__(self) -> dict[str, Any]:
        # Digests are of no use elsewhere, and a card must not say there that nothing was fitted.
        return {**vars(self), "records": (), "past": SPENDING.past(self.past)}

    @property
    def quality(self) -> dict[str, Interval]:
        """Each figure over the seeds, on the test set: not private."""
        names = [name for name in self.figures[0] if all(name in each for each in self.figures)]
        return {name: interval([each[name] for each in self.figures], *limits(name)) for name in names}

    @property
    def worse_than_guessing(self) -> bool:
        """Whether the same answer for everybody does as well."""
        name = next(name for name in SMALLER_IS_BETTER if name in self.constant)
        return self.quality[name].mean >= self.constant[name]

    def save(self, path: Path | str) -> None:
        """The first seed's model, and its card beside it.

        >>> study.read("study.toml").simulate(seeds=1).save("model.npz")
        >>> study.load("model.npz").card["epsilon"] <= 1
        True
        """
        model = self.model
        write_archive(Path(path), model.theta, model.description, model.card)

    def plot(self, path: Path | str | None = None, *, what: str = "curve") -> "Picture":
        """The first seed's curve over rounds, without privacy and the constant beside it; PNG or SVG by the ending.

        With `what="examples"`, where rows are pictures: right and wrong answers on the public test set.
        """
        if what not in PLOTS:
            raise StudyError(f"what is {what!r}: use {' or '.join(PLOTS)}")
        picture = self._curve() if what == "curve" else self._pictures()
        if path is not None:
            picture.save(path)
        return picture

    def _pictures(self) -> "Picture":
        from parley.study.plots import examples

        if not self.examples:
            raise StudyError(
                "there are no examples to show: they are of a public test set (test=) whose rows are pictures, as "
                "[model] input = [1, 28, 28] or a transform's shape says it"
            )
        return examples(self.examples)

    def _curve(self) -> "Picture":
        from parley.study.plots import curve

        rounds, values = zip(*self.curve.private, strict=True)
        name = self.curve.measure.lower()
        return curve(
            rounds,
            values,
            measure=f"{self.curve.measure} on {self._tested}",
            without_privacy=[value for _, value in self.curve.without_privacy],
            constant=self.constant.get(name),
        )

    def predict(self, rows: Any) -> NDArray[Any]:
        """Labels or numbers, by the model."""
        return self.model.predict(rows)

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Of each class, by the model."""
        return self.model.predict_proba(rows)

    def as_json(self) -> dict[str, Any]:
        """The fields of `parley simulate --json`; `not_private` names those that are for whoever ran it alone."""
        # Whoever reads a statement, and nothing else, must not read a promise that does not hold.
        said = {"statement": REPEATABLE} if self.repeatable and self.plan else {}
        return {
            "runs": [{**each, **said} for each in self.runs],
            "mean": mean_of(self.runs),
            "quality": {name: asdict(each) for name, each in self.quality.items()},
            "without_privacy": dict(self.without_privacy),
            "constant": dict(self.constant),
            "worse_than_guessing": self.worse_than_guessing,
            "tested": self.tested,
            "public_test": self.public_test,
            "repeatable": self.repeatable,
            "fits": self.fits,
            "plan": {**self.plan.as_json(), **said} if self.plan else None,
            "records": self.fit.records,
            "not_private": list(FIGURES) if self.fit.records == PRIVATE else [],
        }

    def __repr__(self) -> str:
        name = next(iter(self.constant))
        return f"Result({self.study!r}, {self._runs}, {name} {self.quality[name]}; print it for all figures)"

    def __str__(self) -> str:
        rows = [("", *self._columns), *self._rows]
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        head, *remarks = (textwrap.fill(each, SCREEN) for each in (self._head, *self.remarks))
        return "\n".join([head, "", *lines, "", *remarks])

    def _repr_html_(self) -> str:
        """For notebooks."""

        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        table = row(("", *self._columns), "th") + "".join(row(each, "td") for each in self._rows)
        notes = "".join(f"<p>{html.escape(each)}</p>" for each in self.remarks)
        return f"<p>{html.escape(self._head)}</p><table>{table}</table>{notes}"

    @property
    def _columns(self) -> tuple[str, ...]:
        return (self._runs, "without privacy", "constant")

    @property
    def _runs(self) -> str:
        count = len(self.runs)
        return f"{count} seeds" if count > 1 else "1 seed"

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        def shown(values: Mapping[str, float], name: str) -> str:
            return f"{values[name]:.3g}" if name in values else ""

        return [
            (name.replace("_", " "), str(found), shown(self.without_privacy, name), shown(self.constant, name))
            for name, found in self.quality.items()
        ]

    @property
    def _tested(self) -> str:
        return f"{self.tested:,} {'public' if self.public_test else 'held-out'} records"

    @property
    def _head(self) -> str:
        units, count = sum(self.fit.parties.values()), len(self.fit.parties)
        parties = f"{count} parties" if count > 1 else "one site"
        held = self.plan if not self.repeatable else None
        price = f"epsilon {held.epsilon:.3g} at delta {held.delta:.3g}" if held else "no guarantee"
        return (
            f"{self.study.model['kind']} by {self.study.algorithm['name']} in {self.fit.rounds:,} rounds, {price}; "
            f"{units:,} units of {parties}, scored on {self._tested}."
        )

    @property
    def remarks(self) -> list[str]:
        """What a reader of the figures must know."""
        if self.fit.records != PRIVATE:
            return [OPEN_RECORDS.format(self.fit.records), *([WORSE] if self.worse_than_guessing else [])]
        found = [f"{NOT_PRIVATE} What may be passed on is the first seed's model, with its card."]
        if self.worse_than_guessing:
            found.append(WORSE)
        if self.repeatable:
            found.append("Repeatable: the noise follows from the seed, so this model protects nobody either.")
        elif self.plan is None:
            found.append("No guarantee was computed, so this model protects nobody.")
        else:
            all_of = self._spent
            found.append(
                f"That model costs each {self.plan.unit} epsilon {self.plan.epsilon:.3g}; all {all_of.fits} fits of "
                f"these records that were made here cost {all_of.epsilon:.3g} together."
            )
        return [*found, *declared(self.study.schema.transform), *(self.plan.advice if self.plan else ())]
