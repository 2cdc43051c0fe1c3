"""Columns, what they mean, and how a cell becomes numbers, by PUBLIC knowledge: bounds, categories, rules for gaps.

Nothing here is ever taken from the data: a scale or a category list learnt from private records would leak. A number is
cut to [low, high], perhaps turned into its logarithm, and becomes (value − centre) / spread; so does a date, counted in
days; a category becomes one encoded column per label. With `missing = "indicator"` one more encoded column says that
the cell is empty. What a cell is encoded to is bounded by the fields of its column alone, whatever the file holds.

Every field is checked for its type and its range when an object is made: a manifest comes from a stranger.
"""

import datetime
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from parley.learning.checks import (
    LARGEST_NUMBER,
    check_choice,
    check_distinct,
    check_finite,
    check_flag,
    check_text,
    check_texts,
    check_whole,
    label_of,
)
from parley.learning.errors import SchemaError

MISSING_RULES = ("refuse", "centre", "zero", "indicator")
TRANSFORMS = ("none", "log1p")
MOST_COLUMNS = 1 << 24
LATER = {"later": True}
"""Marks a field that documents leave out where it is the default: those of earlier versions stay as they were."""
UNWRITTEN = {"unwritten": True}
"""Marks a field that documents never hold."""


def integer_of(largest: float, fraction_bits: int) -> int:
    """The largest integer that a feature becomes; beyond 2^60 it does not matter which: no such row is counted."""
    return math.floor(min(largest * (1 + 2.0**-50) * 2.0**fraction_bits, 2.0**60) + 0.5)


def check_source(where: str, source: Any) -> None:
    """Where public knowledge is from: one line, or nothing."""
    if source != "":
        check_text(where, "source", source)


class Scaled(ABC):
    """What a number and a date share: (value − centre) / spread of a value within `ends`."""

    name: str
    centre: float
    spread: float
    missing: str

    @property
    @abstractmethod
    def cut(self) -> tuple[float, float]:
        """What a value is cut to, in the column's own unit; a date's are days after its `low`."""

    @property
    def ends(self) -> tuple[float, float]:
        """The same on the scale of `centre` and `spread`."""
        return self.cut

    def check_scale(self) -> None:
        """Of fields that both have."""
        for what in ("centre", "spread"):
            object.__setattr__(self, what, check_finite(self.name, what, getattr(self, what)))
        if not self.spread >= 1 / LARGEST_NUMBER:
            raise SchemaError(f"{self.name}: spread is {self.spread:g}, give a number above 0")
        check_choice(self.name, "missing", self.missing, MISSING_RULES)

    @property
    def indicated(self) -> bool:
        """Whether one more encoded column says that a cell is empty."""
        return self.missing == "indicator"

    @property
    def width(self) -> int:
        return 1 + self.indicated

    @property
    def largest(self) -> float:
        low, high = self.ends
        return max(abs(low - self.centre), abs(high - self.centre)) / self.spread

    @property
    def reach(self) -> tuple[float, float]:
        """What a cell is encoded to, at least and at most; 0 is what an empty cell is encoded to, 1 says that it is."""
        low, high = ((each - self.centre) / self.spread for each in self.ends)
        return min(low, 0.0), max(high, float(self.indicated))

    def longest_squared(self, fraction_bits: int) -> int:
        """A bound on the squared norm of its encoded columns: a value and no mark, or a mark and no value."""
        longest = integer_of(self.largest, fraction_bits) ** 2
        return max(longest, 1 << 2 * fraction_bits) if self.indicated else longest


@dataclass(frozen=True)
class Number(Scaled):
    """A numeric column."""

    name: str
    low: float
    high: float
    centre: float
    """What becomes 0; after the transform, as `spread` is."""
    spread: float
    """What becomes 1 above it."""
    missing: str = "refuse"
    """What an empty cell becomes: refused; the centre or the encoded number zero, which are the same; or zero and a 1
    in one more encoded column (indicator)."""
    transform: str = field(default="none", metadata=LATER)
    """What is done to a value after it was cut: nothing, or log1p, the logarithm of 1 + value."""
    source: str = field(default="", compare=False, metadata=LATER)
    """Where the bounds are from, for people."""
    group: str = field(default="", compare=False, metadata=UNWRITTEN)
    """Marks the neighbours of the same meaning with which documents write it in one entry."""

    def __post_init__(self) -> None:
        check_text("features", "a name", self.name)
        for what in ("low", "high"):
            object.__setattr__(self, what, check_finite(self.name, what, getattr(self, what)))
        if not self.low < self.high:
            raise SchemaError(f"{self.name}: low {self.low:g} is not below high {self.high:g}")
        self.check_scale()
        check_choice(self.name, "transform", self.transform, TRANSFORMS)
        check_source(self.name, self.source)
        if self.transform == "log1p":
            if not self.low > -1:
                raise SchemaError(f"{self.name}: low is {self.low:g}, log1p needs one above -1")
            if not self.ends[0] < self.ends[1]:
                raise SchemaError(f"{self.name}: low and high have one logarithm: take them further apart")

    @property
    def cut(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def ends(self) -> tuple[float, float]:
        return (math.log1p(self.low), math.log1p(self.high)) if self.transform == "log1p" else self.cut


def day_of(where: str, what: str, value: Any) -> str:
    """A day as documents write it."""
    if type(value) is datetime.date:  # TOML has dates without quotes
        return value.isoformat()
    try:
        if isinstance(value, str) and len(value) == 10:
            return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise SchemaError(f'{where}: {what} is {str(value)[:40]!r}, give a day such as "1990-12-31"')


@dataclass(frozen=True)
class Date(Scaled):
    """A column of days."""

    name: str
    low: str
    """The first day, as in 1990-12-31."""
    high: str
    centre: float
    """In days after `low`, as `spread` is."""
    spread: float
    missing: str = "refuse"
    source: str = field(default="", compare=False, metadata=LATER)
    group: str = field(default="", compare=False, metadata=UNWRITTEN)

    def __post_init__(self) -> None:
        check_text("features", "a name", self.name)
        for what in ("low", "high"):
            object.__setattr__(self, what, day_of(self.name, what, getattr(self, what)))
        self.check_scale()
        if not self.low < self.high:
            raise SchemaError(f"{self.name}: low {self.low} is not before high {self.high}")
        check_source(self.name, self.source)

    @property
    def first(self) -> int:
        """Of `low`, in days as Python counts them."""
        return datetime.date.fromisoformat(self.low).toordinal()

    @property
    def cut(self) -> tuple[float, float]:
        return 0.0, float(datetime.date.fromisoformat(self.high).toordinal() - self.first)


@dataclass(frozen=True)
class Category:
    """A column of labels, one encoded column per public category."""

    name: str
    categories: tuple[str, ...]
    missing: str = "refuse"
    """What an empty cell becomes: refused, no category at all (zero), one of the categories, or a 1 in one more encoded
    column (indicator)."""
    other: str = "refuse"
    """What a label that is not listed becomes: refused, no category at all (zero), or one of the categories."""
    source: str = field(default="", compare=False, metadata=LATER)
    """The public codebook that lists the categories, for people."""
    group: str = field(default="", compare=False, metadata=UNWRITTEN)

    def __post_init__(self) -> None:
        check_text("features", "a name", self.name)
        if not check_texts(self.name, "categories", self.categories):
            raise SchemaError(f"{self.name}: list each category once, and at least one")
        check_distinct(self.name, self.categories)
        check_source(self.name, self.source)
        known = {"refuse", "zero", *self.categories}
        for what, rule, more in (("missing", self.missing, {"indicator"}), ("other", self.other, set())):
            if not isinstance(rule, str) or rule not in known | more:
                words = "refuse, zero, indicator" if more else "refuse, zero"
                raise SchemaError(f"{self.name}: {what} is {str(rule)[:40]!r}, use {words} or one of the categories")

    @property
    def indicated(self) -> bool:
        """Whether one more encoded column says that a cell is empty; a category of that name comes first."""
        return self.missing == "indicator" and "indicator" not in self.categories

    @property
    def width(self) -> int:
        return len(self.categories) + self.indicated

    reach = (0.0, 1.0)

    def longest_squared(self, fraction_bits: int) -> int:
        """A 1 in at most one of its columns."""
        return 1 << 2 * fraction_bits


@dataclass(frozen=True)
class Uniform:
    """Many numeric columns under one bound: LIBSVM, NPZ and IDX files. Sparse ones need a centre of zero."""

    count: int
    low: float
    high: float
    centre: float = 0.0
    spread: float = 1.0
    whole: bool = False
    """Whether encoded values are integers, so that they need no fraction bits."""

    def __post_init__(self) -> None:
        number = self._number
        for what in ("low", "high", "centre", "spread"):
            object.__setattr__(self, what, getattr(number, what))
        check_whole("features", "count", self.count, 1, MOST_COLUMNS)
        check_flag("features", "whole", self.whole)

    @property
    def _number(self) -> Number:
        return Number("features", self.low, self.high, self.centre, self.spread)

    @property
    def width(self) -> int:
        return self.count

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def largest(self) -> float:
        return self._number.largest

    @property
    def reach(self) -> tuple[float, float]:
        """As a number's; 0 is what a sparse file does not store."""
        return self._number.reach


Column = Number | Date | Category
Features = tuple[Column, ...] | Uniform
KINDS: dict[str, type[Column]] = {"number": Number, "date": Date, "category": Category}


@dataclass(frozen=True)
class Target:
    """What is predicted. `binary`: labels of `positive` are 1 and of `negative` 0; `classes`; or `number` in bounds."""

    name: str
    kind: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    low: float = math.nan
    """Of a number, as for a feature; 0 where the target is none."""
    high: float = math.nan
    """Of a number; 1 where the target is none."""
    centre: float = 0.0
    spread: float = 1.0
    source: str = field(default="", compare=False, metadata=LATER)
    """Where labels or bounds are from, for people."""

    def __post_init__(self) -> None:
        check_text("target", "name", self.name)
        if self.kind not in ("binary", "classes", "number"):
            raise SchemaError(f"{self.name}: kind is {str(self.kind)[:40]!r}, use binary, classes or number")
        for what in ("positive", "negative", "classes"):
            check_texts(self.name, what, getattr(self, what))
        check_source(self.name, self.source)
        self._check_bounds()
        if self.kind == "binary":
            if not self.positive or not self.negative or set(self.positive) & set(self.negative):
                raise SchemaError(f"{self.name}: list the positive and the negative labels, none of them in both")
            if {label_of(each) for each in self.positive} & {label_of(each) for each in self.negative}:
                raise SchemaError(f"{self.name}: a label is positive and negative (1 and 1.0 are one label)")
        elif self.kind == "classes":
            if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
                raise SchemaError(f"{self.name}: list at least two classes, each once")
            check_distinct(self.name, self.classes)

    def _check_bounds(self) -> None:
        for what, usual in (("low", 0.0), ("high", 1.0)):
            value = getattr(self, what)
            if isinstance(value, float) and math.isnan(value):
                if self.kind == "number":
                    raise SchemaError(f"{self.name}: give low and high, the public bounds of what is predicted")
                object.__setattr__(self, what, usual)
        number = Number(self.name, self.low, self.high, self.centre, self.spread)
        for what in ("low", "high", "centre", "spread"):
            object.__setattr__(self, what, getattr(number, what))
