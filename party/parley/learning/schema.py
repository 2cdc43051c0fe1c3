"""What columns mean, by PUBLIC knowledge: bounds, categories, rules for missing values.

Nothing here is ever taken from the data: a scale or a category list learnt from private records would leak. Numbers are
cut to [low, high], then become (value − centre) / spread; categories become one column each. A `Schema` is the part of
a manifest that says which columns a run uses. What a file looks like is not in it: that is each institution's own
(`parley.learning.holding`), and so is the word on every column that a manifest may name.

Every field is checked for its type and its range when an object is made: a manifest comes from a stranger.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

from parley.learning.errors import SchemaError

MISSING_RULES = ("refuse", "centre", "zero")
LARGEST_NUMBER = 1e30
"""Of a bound, a centre or a spread; a spread is at least its inverse."""
LONGEST_TEXT = 1000
MOST_COLUMNS = 1 << 24
LARGEST_SQUARED = 2.0**52
"""Of an encoded row's squared integer norm, so that it is exact in float64 whatever the order of summation."""


def label_of(value: Any) -> str:
    """One spelling per number, so that 1, 1.0 and +1 are the same label."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def _finite(where: str, what: str, value: Any) -> float:
    right = not isinstance(value, bool) and isinstance(value, int | float)
    if not right or not abs(value) <= LARGEST_NUMBER:
        raise SchemaError(f"{where}: {what} is {str(value)[:40]}, give a finite public number up to {LARGEST_NUMBER:g}")
    return float(value)


def check_text(where: str, what: str, value: Any) -> str:
    """One line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_TEXT:
        raise SchemaError(f"{where}: {what} is {str(value)[:40]!r}, give one line of text")
    return value


def check_texts(where: str, what: str, values: Any) -> tuple[str, ...]:
    """A list of short texts, which may be empty ones."""
    if not isinstance(values, tuple) or not all(
        isinstance(each, str) and len(each) <= LONGEST_TEXT and (not each or each.isprintable()) for each in values
    ):
        raise SchemaError(f"{where}: {what} is not a list of short texts: give one")
    return values


def check_whole(where: str, what: str, value: Any, low: int, high: int) -> int:
    """A whole number in these limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SchemaError(f"{where}: {what} is {str(value)[:40]}, use a whole number from {low:,} to {high:,}")
    return value


def check_flag(where: str, what: str, value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise SchemaError(f"{where}: {what} is {str(value)[:40]}, use true or false")
    return value


def _distinct_labels(where: str, labels: tuple[str, ...]) -> None:
    if len({label_of(each) for each in labels}) < len(labels):
        raise SchemaError(f"{where}: list each label once (1 and 1.0 are one label)")


@dataclass(frozen=True)
class Number:
    """A numeric column."""

    name: str
    low: float
    high: float
    centre: float
    spread: float
    missing: str = "refuse"
    """What an empty cell becomes: refused, the centre, or the encoded number zero (which is the centre as well)."""

    def __post_init__(self) -> None:
        check_text("features", "a name", self.name)
        for what in ("low", "high", "centre", "spread"):
            object.__setattr__(self, what, _finite(self.name, what, getattr(self, what)))
        if not self.low < self.high:
            raise SchemaError(f"{self.name}: low {self.low:g} is not below high {self.high:g}")
        if not self.spread >= 1 / LARGEST_NUMBER:
            raise SchemaError(f"{self.name}: spread is {self.spread:g}, give a number above 0")
        if self.missing not in MISSING_RULES:
            raise SchemaError(
                f"{self.name}: missing is {str(self.missing)[:40]!r}, use one of {', '.join(MISSING_RULES)}"
            )

    width = 1

    @property
    def largest(self) -> float:
        return max(abs(self.low - self.centre), abs(self.high - self.centre)) / self.spread

    @property
    def reach(self) -> tuple[float, float]:
        """What a cell is encoded to, at least and at most; 0 is what an empty cell is encoded to."""
        low, high = (self.low - self.centre) / self.spread, (self.high - self.centre) / self.spread
        return min(low, 0.0), max(high, 0.0)


@dataclass(frozen=True)
class Category:
    """A column of labels, one encoded column per public category."""

    name: str
    categories: tuple[str, ...]
    missing: str = "refuse"
    """What an empty cell becomes: refused, no category at all (zero), or one of the categories."""
    other: str = "refuse"
    """The same for a label that is not listed."""

    def __post_init__(self) -> None:
        check_text("features", "a name", self.name)
        if not check_texts(self.name, "categories", self.categories):
            raise SchemaError(f"{self.name}: list each category once, and at least one")
        _distinct_labels(self.name, self.categories)
        known = {"refuse", "zero", *self.categories}
        for what, rule in (("missing", self.missing), ("other", self.other)):
            if not isinstance(rule, str) or rule not in known:
                raise SchemaError(
                    f"{self.name}: {what} is {str(rule)[:40]!r}, use refuse, zero or one of the categories"
                )

    @property
    def width(self) -> int:
        return len(self.categories)

    largest = 1.0
    reach = (0.0, 1.0)


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
    def largest(self) -> float:
        return self._number.largest

    @property
    def reach(self) -> tuple[float, float]:
        """As a number's; 0 is what a sparse file does not store."""
        return self._number.reach


@dataclass(frozen=True)
class Target:
    """What is predicted. `binary`: labels of `positive` are 1 and of `negative` 0; `classes`; or `number` in bounds."""

    name: str
    kind: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    centre: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        check_text("target", "name", self.name)
        for what in ("positive", "negative", "classes"):
            check_texts(self.name, what, getattr(self, what))
        number = Number(self.name, self.low, self.high, self.centre, self.spread)
        for what in ("low", "high", "centre", "spread"):
            object.__setattr__(self, what, getattr(number, what))
        if self.kind == "binary":
            if not self.positive or not self.negative or set(self.positive) & set(self.negative):
                raise SchemaError(f"{self.name}: list the positive and the negative labels, none of them in both")
            if {label_of(each) for each in self.positive} & {label_of(each) for each in self.negative}:
                raise SchemaError(f"{self.name}: a label is positive and negative (1 and 1.0 are one label)")
        elif self.kind == "classes":
            if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
                raise SchemaError(f"{self.name}: list at least two classes, each once")
            _distinct_labels(self.name, self.classes)
        elif self.kind != "number":
            raise SchemaError(f"{self.name}: kind is {str(self.kind)[:40]!r}, use binary, classes or number")


Features = tuple[Number | Category, ...] | Uniform


@dataclass(frozen=True)
class Schema:
    """Which columns a run uses and what they mean."""

    features: Features
    target: Target
    unit: str | None = None
    """Column that names whose record it is, where the unit of privacy is not the row."""
    records_per_unit: int = 1
    """Public cap; what a unit has beyond it is left out, and counted locally."""
    nonzeros: int | None = None
    """Public cap per row of a sparse file; what a row has beyond it is left out, and counted locally."""
    intercept: bool = False
    bits: int = 10
    """Fraction bits of encoded features."""

    def __post_init__(self) -> None:
        self._check_types()
        check_whole("the schema", "bits", self.bits, 0, 16)
        check_whole("the schema", "records_per_unit", self.records_per_unit, 1, 4096)
        check_flag("the schema", "intercept", self.intercept)
        if self.unit is None and self.records_per_unit != 1:
            raise SchemaError("records_per_unit is above 1 and no unit column is named: name it, or leave it out")
        if self.unit is not None:
            check_text("the schema", "unit", self.unit)
        if isinstance(self.features, Uniform):
            if self.unit is not None:
                raise SchemaError("features under one bound have no unit column: name them, in a csv or parquet file")
            if self.nonzeros is not None:
                check_whole("the schema", "nonzeros", self.nonzeros, 1, self.features.count)
        else:
            if self.nonzeros is not None:
                raise SchemaError("nonzeros is for features under one bound: leave it out")
            names = [feature.name for feature in self.features]
            if not names or len(set(names)) < len(names) or self.target.name in names:
                raise SchemaError("features: name each column once, at least one, and not the target")
            if self.unit is not None and (self.unit in names or self.unit == self.target.name):
                raise SchemaError(f"{self.unit} names whose record it is: it is neither a feature nor a target")
        if not self._longest_squared < LARGEST_SQUARED:
            raise SchemaError("a feature row could be too long to count exactly: lower bits, or raise spreads")

    def _check_types(self) -> None:
        tabular = isinstance(self.features, tuple) and all(
            isinstance(each, Number | Category) for each in self.features
        )
        if not tabular and not isinstance(self.features, Uniform):
            raise SchemaError("features: give a list of columns, or one table with count, low and high")
        if not isinstance(self.target, Target):
            raise SchemaError("target: give a table with name and kind")

    @property
    def width(self) -> int:
        """Encoded columns, without the intercept."""
        return self.features.count if isinstance(self.features, Uniform) else sum(f.width for f in self.features)

    @property
    def dimension(self) -> int:
        """Encoded columns, with it."""
        return self.width + self.intercept

    @property
    def fraction_bits(self) -> int:
        """Of the encoded features: none where all of them are integers."""
        if isinstance(self.features, Uniform):
            return 0 if self.features.whole else self.bits
        return 0 if all(isinstance(feature, Category) for feature in self.features) else self.bits

    @property
    def feature_bound(self) -> float:
        """A public bound on the norm of an encoded row, intercept included, as it is after rounding to integers."""
        # Integers until here, so that only the root is rounded.
        return math.sqrt(self._longest_squared) * 2.0**-self.fraction_bits

    def _encoded(self, largest: float) -> int:
        """The largest integer that a feature becomes; beyond 2^60 it does not matter which: no such row is counted."""
        return math.floor(min(largest * (1 + 2.0**-50) * 2.0**self.fraction_bits, 2.0**60) + 0.5)

    @property
    def integer_reach(self) -> tuple[int, int]:
        """The smallest and the largest integer that a cell of an encoded row can be, whatever the records hold.

        Encoding is monotone, rounding too: no cell lies beyond what the public bounds are encoded to.
        """
        each = [self.features.reach] if isinstance(self.features, Uniform) else [f.reach for f in self.features]
        scale = 2.0**self.fraction_bits
        low, high = min(low for low, _ in each), max(high for _, high in each)
        return math.floor(low * scale), math.ceil(max(high, float(self.intercept)) * scale)

    @property
    def _longest_squared(self) -> int:
        """A public bound on the squared norm of an encoded row of integers: so no record can be refused for its own."""
        if isinstance(self.features, Uniform):
            most = min(self.features.count, self.nonzeros or self.features.count)
            squared = most * self._encoded(self.features.largest) ** 2
        else:
            squared = sum(self._encoded(feature.largest) ** 2 for feature in self.features)
        return int(squared + self.intercept * 4**self.fraction_bits)

    @property
    def outputs(self) -> int:
        """Of a model that predicts the target."""
        return len(self.target.classes) if self.target.kind == "classes" else 1

    def as_json(self) -> dict[str, Any]:
        """The manifest's form; `schema_from_json` is its inverse."""
        body = plain(self)
        body["features"] = features_as_json(self.features)
        body["target"] = plain(self.target)
        return body


def features_as_json(features: Features) -> Any:
    """As documents hold them."""
    if isinstance(features, Uniform):
        return plain(features)
    return [{"kind": type(each).__name__.lower(), **plain(each)} for each in features]


def schema_from_json(body: dict[str, Any]) -> Schema:
    """From a manifest or a study; unknown fields are refused, for they might have meant something."""
    values = dict(body)
    values["features"] = features_from(values.get("features"))
    values["target"] = target_from(values.get("target"))
    schema: Schema = build(Schema, values, "schema")
    return schema


def features_from(found: Any) -> Features:
    """A list of columns, or one table for many."""
    if isinstance(found, dict):
        uniform: Uniform = build(Uniform, found, "features")
        return uniform
    if not isinstance(found, list | tuple):
        raise SchemaError("features: give a list of columns, or one table with count, low and high")
    return tuple(_feature(each) for each in found)


def target_from(found: Any) -> Target:
    """One table."""
    if not isinstance(found, dict):
        raise SchemaError("target: give a table with name and kind")
    target: Target = build(Target, found, "target")
    return target


def _feature(body: Any) -> Number | Category:
    if not isinstance(body, dict):
        raise SchemaError("features: each is a table with name, low and high, or with name and categories")
    values = dict(body)
    kind = values.pop("kind", "number")
    name = str(values.get("name", "a feature"))[:LONGEST_TEXT]
    if kind == "category":
        found: Number | Category = build(Category, values, name)
        return found
    if kind != "number":
        raise SchemaError(f"{name}: kind is {str(kind)[:40]!r}, use number or category")
    if "low" in values and "high" in values:
        low, high = (_finite(name, what, values[what]) for what in ("low", "high"))
        values.setdefault("centre", (low + high) / 2)
        values.setdefault("spread", (high - low) / 2)
    number: Number = build(Number, values, name)
    return number


def build(kind: Any, values: dict[str, Any], where: str) -> Any:
    """A dataclass from a table, each field by name."""
    known = {field.name for field in fields(kind)}
    for name in values:
        if name not in known:
            raise SchemaError(f"{where}: no field {str(name)[:40]!r}, use {', '.join(sorted(known))}")
    turned = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    try:
        return kind(**turned)
    except TypeError as error:
        raise SchemaError(f"{where}: {error}") from None


def plain(value: Any) -> dict[str, Any]:
    """A dataclass as a table."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: list(each) if isinstance(each, tuple) else each for name, each in found.items()}
