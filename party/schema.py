"""What columns mean, by PUBLIC knowledge: bounds, categories, rules for missing values. Imports numpy only.

Nothing here is ever taken from the data: a scale or a category list learnt from private records would leak. Numbers are
cut to [low, high], then become (value − centre) / spread; categories become one column each. The schema is part of the
manifest, as JSON, and every party reads its own file with it.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

from party.errors import SchemaError

MISSING_RULES = ("refuse", "centre", "zero")


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
        for what, value in (("low", self.low), ("high", self.high), ("centre", self.centre), ("spread", self.spread)):
            if not math.isfinite(value):
                raise SchemaError(f"{self.name}: {what} is {value}, give a finite public number")
        if not self.low < self.high:
            raise SchemaError(f"{self.name}: low {self.low} is not below high {self.high}")
        if not self.spread > 0:
            raise SchemaError(f"{self.name}: spread is {self.spread}, give a number above 0")
        if self.missing not in MISSING_RULES:
            raise SchemaError(f"{self.name}: missing is {self.missing!r}, use one of {', '.join(MISSING_RULES)}")

    width = 1

    @property
    def largest(self) -> float:
        return max(abs(self.low - self.centre), abs(self.high - self.centre)) / self.spread


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
        if not self.categories or len(set(self.categories)) < len(self.categories):
            raise SchemaError(f"{self.name}: list each category once, and at least one")
        for what, rule in (("missing", self.missing), ("other", self.other)):
            if rule not in ("refuse", "zero", *self.categories):
                raise SchemaError(f"{self.name}: {what} is {rule!r}, use refuse, zero or one of the categories")

    @property
    def width(self) -> int:
        return len(self.categories)

    largest = 1.0


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
        Number("features", self.low, self.high, self.centre, self.spread)
        if not 1 <= self.count <= 1 << 24:
            raise SchemaError(f"features: count is {self.count}, give the number of columns")

    @property
    def width(self) -> int:
        return self.count

    @property
    def largest(self) -> float:
        return Number("features", self.low, self.high, self.centre, self.spread).largest


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
        if self.kind == "binary":
            if not self.positive or not self.negative or set(self.positive) & set(self.negative):
                raise SchemaError(f"{self.name}: list the positive and the negative labels, none of them in both")
        elif self.kind == "classes":
            if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
                raise SchemaError(f"{self.name}: list at least two classes, each once")
        elif self.kind == "number":
            Number(self.name, self.low, self.high, self.centre, self.spread)
        else:
            raise SchemaError(f"{self.name}: kind is {self.kind!r}, use binary, classes or number")


@dataclass(frozen=True)
class Schema:
    """Everything needed to turn a file into records."""

    format: str
    features: tuple[Number | Category, ...] | Uniform
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
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    """Names, for a file without a header."""
    skip: int = 0
    """Lines before the header or the first row."""
    missing: tuple[str, ...] = ("", "?", "NA")
    """Cells that count as empty."""

    def __post_init__(self) -> None:
        if self.format not in ("csv", "parquet", "libsvm", "npz", "idx"):
            raise SchemaError(f"format is {self.format!r}: use csv, parquet, libsvm, npz or idx")
        if isinstance(self.features, Uniform) == (self.format in ("csv", "parquet")):
            raise SchemaError(f"a {self.format} file needs features {'by name' if self.tabular else 'as one count'}")
        if not 0 <= self.bits <= 16:
            raise SchemaError(f"bits is {self.bits}: use 0 to 16")
        if not 1 <= self.records_per_unit <= 4096 or (self.unit is None and self.records_per_unit != 1):
            raise SchemaError("records_per_unit is 1 to 4096, and above 1 only with a unit column")
        if self.unit is not None and not self.tabular:
            raise SchemaError(f"a {self.format} file has no unit column: convert it to csv or parquet")
        if not self.tabular and self.nonzeros is not None and not 1 <= self.nonzeros <= self.width:
            raise SchemaError(f"nonzeros is {self.nonzeros}: use 1 to the number of features")
        if self.tabular and not self.header and not self.columns:
            raise SchemaError("a file without a header needs columns: list their names in order")
        if isinstance(self.features, tuple):
            names = [feature.name for feature in self.features]
            if not names or len(set(names)) < len(names) or self.target.name in names:
                raise SchemaError("features: name each column once, at least one, and not the target")

    @property
    def tabular(self) -> bool:
        return self.format in ("csv", "parquet")

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
        if isinstance(self.features, Uniform):
            most = min(self.features.count, self.nonzeros or self.features.count)
            squared = most * self._encoded(self.features.largest) ** 2
        else:
            squared = sum(self._encoded(feature.largest) ** 2 for feature in self.features)
        # Integers until here, so that only the root is rounded.
        return math.sqrt(squared + self.intercept * 4**self.fraction_bits) * 2.0**-self.fraction_bits

    def _encoded(self, largest: float) -> int:
        """The largest integer that a feature becomes; beyond 2^60 it does not matter which: no such row is counted."""
        return math.floor(min(largest * (1 + 2.0**-50) * 2.0**self.fraction_bits, 2.0**60) + 0.5)

    @property
    def outputs(self) -> int:
        """Of a model that predicts the target."""
        return len(self.target.classes) if self.target.kind == "classes" else 1

    def as_json(self) -> dict[str, Any]:
        """The manifest's form; `schema_from_json` is its inverse."""
        body = _plain(self)
        if isinstance(self.features, Uniform):
            body["features"] = _plain(self.features)
        else:
            body["features"] = [{"kind": type(each).__name__.lower(), **_plain(each)} for each in self.features]
        body["target"] = _plain(self.target)
        return body


def schema_from_json(body: dict[str, Any]) -> Schema:
    """From a manifest or a TOML file; unknown fields are refused, for they might have meant something."""
    values = dict(body)
    features = values.get("features")
    if isinstance(features, dict):
        values["features"] = _build(Uniform, features, "features")
    elif isinstance(features, list):
        values["features"] = tuple(_feature(each) for each in features)
    else:
        raise SchemaError("features: give a list of columns, or one table with count, low and high")
    if not isinstance(values.get("target"), dict):
        raise SchemaError("target: give a table with name and kind")
    values["target"] = _build(Target, values["target"], "target")
    schema: Schema = _build(Schema, values, "schema")
    return schema


def _feature(body: dict[str, Any]) -> Number | Category:
    values = dict(body)
    kind = values.pop("kind", "number")
    name = values.get("name", "a feature")
    if kind == "category":
        found: Number | Category = _build(Category, values, name)
        return found
    if kind != "number":
        raise SchemaError(f"{name}: kind is {kind!r}, use number or category")
    if "low" in values and "high" in values:
        values.setdefault("centre", (values["low"] + values["high"]) / 2)
        values.setdefault("spread", (values["high"] - values["low"]) / 2)
    number: Number = _build(Number, values, name)
    return number


def _build(kind: Any, values: dict[str, Any], where: str) -> Any:
    known = {field.name for field in fields(kind)}
    for name in values:
        if name not in known:
            raise SchemaError(f"{where}: no field {name!r}, use {', '.join(sorted(known))}")
    turned = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    try:
        return kind(**turned)
    except TypeError as error:
        raise SchemaError(f"{where}: {error}") from None


def _plain(value: Any) -> dict[str, Any]:
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: list(each) if isinstance(each, tuple) else each for name, each in found.items()}
