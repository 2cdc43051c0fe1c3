"""What columns mean to an estimator, by public facts alone: bounds for a matrix, a schema for a frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.files import toml_file
from parley.learning.cells import emptiness
from parley.learning.checks import label_of
from parley.learning.columns import Category, Features, Number, Target, Uniform
from parley.learning.holding import CSV, STUDY_FIELDS, holding_from
from parley.learning.readers import Dense, Table
from parley.learning.schema import Schema
from parley.study.estimator_input import InputError
from parley.study.frames import data_for

Floats = NDArray[np.float64]
SOME_TARGET = {"name": "(what is predicted)", "kind": "number", "low": 0, "high": 1}
"""For a document without one, which is no business of a table of features."""


@dataclass(frozen=True)
class Columns:
    """Features, and whose record a row is."""

    features: Features
    unit: str | None = None
    records_per_unit: int = 1
    missing: tuple[str, ...] = CSV.missing
    """Cells that count as empty."""

    def read(self, X: Any) -> Table | Dense:
        """The cells, whatever holds them; what this schema alone counts as empty is None."""
        data = data_for(X, self.features)
        own = tuple(word for word in self.missing if word not in CSV.missing)
        if isinstance(data, Dense) or isinstance(self.features, Uniform) or not own:
            return data
        empty, columns = emptiness(own), dict(data.columns)
        for feature in self.features:
            labels = {label_of(each) for each in feature.categories} if isinstance(feature, Category) else set()
            columns[feature.name] = [
                None if empty(cell) and label_of(cell) not in labels else cell for cell in columns[feature.name]
            ]
        return Table(columns, data.count)

    @property
    def count(self) -> int:
        """As a user sees them, before categories become one column each."""
        return self.features.count if isinstance(self.features, Uniform) else len(self.features)

    def schema(self, target: Target, intercept: bool = True) -> Schema:
        """With what is predicted, and an intercept but for a model that has biases of its own."""
        return Schema(
            features=self.features,
            target=target,
            unit=self.unit,
            records_per_unit=self.records_per_unit,
            intercept=intercept,
        )


@dataclass(frozen=True)
class Given:
    """X of a fit, read."""

    columns: Columns
    data: Table | Dense
    names: Sequence[str] | None
    """Of its columns, where it has any."""

    def free_name(self, y: Any) -> str:
        """What the target may be called: y's own name, if it has one that is no column's."""
        name = getattr(y, "name", None)
        taken = self.data.columns.keys() if isinstance(self.data, Table) else {"features"}
        name = name if isinstance(name, str) and name.strip() else "y"
        while name in taken:
            name += "_"
        return name

    def labelled(self, name: str, cells: Sequence[Any]) -> Table | Dense:
        """With the target, for `encode`."""
        if isinstance(self.data, Dense):
            return Dense(self.data.values, np.array(cells))
        return Table({**self.data.columns, name: cells}, self.data.count)

    @property
    def identifying(self) -> list[Any]:
        """The columns by which a record is known again: whose it is, or all its features."""
        if isinstance(self.data, Dense):
            return list(self.data.values.T)
        unit = self.columns.unit
        names = names_of_features(self.columns.features) if unit is None else [unit]
        return [self.data.columns[name] for name in names]


def names_of_features(features: Features) -> list[str]:
    """Of columns that have names."""
    return [] if isinstance(features, Uniform) else [each.name for each in features]


def rows_in(data: Table | Dense) -> int:
    """How many there are."""
    return data.count if isinstance(data, Table) else len(data.values)


def columns_from(schema: Any) -> Columns:
    """Of a Schema, a list of features, a table with `features`, or a schema.toml; what it predicts is left out."""
    if (isinstance(schema, Schema) and schema.transform) or (isinstance(schema, Mapping) and schema.get("transform")):
        raise InputError("an estimator has no transform: fit a study (study.Study), which keeps it with the model")
    if isinstance(schema, Schema):
        return Columns(schema.features, schema.unit, schema.records_per_unit)
    if isinstance(schema, str | Path):
        path = Path(schema)
        schema = toml_file(path, lambda what: InputError(f"{path.name} {what}"))
    elif isinstance(schema, Sequence):
        schema = {"features": list(schema)}
    if not isinstance(schema, Mapping) or "features" not in schema:
        raise InputError("schema is no schema: give a Schema, a list of features, or the path of a schema.toml")
    body = {name: value for name, value in schema.items() if name not in STUDY_FIELDS}
    if "target" not in body and "targets" not in body:
        body["target"] = SOME_TARGET
    holding = holding_from({"units": 1, **body})
    features = holding.features
    if not isinstance(features, Uniform):
        predicted = {each.name for each in holding.targets}
        features = tuple(each for each in features if each.name not in predicted)
    return Columns(features, holding.unit, holding.records_per_unit, holding.layout.missing)


def columns_within(bounds: Any, names: Sequence[str] | None, width: int) -> Columns:
    """Numbers between public bounds: (low, high), each a number or one for each column; or a pair by column name."""
    if isinstance(bounds, Mapping):
        lows, highs = _by_name(bounds, names)
    else:
        low, high = pair(bounds, "bounds")
        lows, highs = _each(low, "low", width), _each(high, "high", width)
        if names is None and np.ndim(low) == np.ndim(high) == 0:
            in_order("bounds", lows[0], highs[0])
            one, other, centre, spread = scaled(float(lows[0]), float(highs[0]))
            return Columns(Uniform(width, one, other, centre, spread))
    named = names or [f"x{index}" for index in range(width)]
    for name, low, high in zip(named, lows, highs, strict=True):
        in_order(f"bounds of {name}", low, high)
    return Columns(
        tuple(
            Number(name, *scaled(low, high))
            for name, low, high in zip(named, lows.tolist(), highs.tolist(), strict=True)
        )
    )


def pair(given: Any, what: str) -> tuple[Any, Any]:
    """(low, high), whatever each of them is."""
    try:
        low, high = given
    except (TypeError, ValueError):
        raise InputError(
            f"{what} is {str(given)[:40]!r}: give (low, high) from public knowledge, such as (0, 200)"
        ) from None
    return low, high


def scaled(low: float, high: float) -> tuple[float, float, float, float]:
    """low, high, centre and spread, so that the bounds become −1 and 1."""
    return low, high, (low + high) / 2, (high - low) / 2


def in_order(what: str, low: float, high: float) -> None:
    """Refuse bounds that hold nothing between them."""
    if not low < high:
        raise InputError(f"{what}: low {low:g} is not below high {high:g}: exchange or correct them")


def _each(end: Any, what: str, width: int) -> Floats:
    try:
        found = np.asarray(end, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"bounds: {what} is {str(end)[:40]!r}: give a number, or one for each column") from None
    if found.ndim > 1 or (found.ndim == 1 and len(found) != width):
        raise InputError(f"bounds: {what} has the shape {found.shape} and X {width} columns: give one for each")
    return np.broadcast_to(found, (width,))


def _by_name(bounds: Mapping[Any, Any], names: Sequence[str] | None) -> tuple[Floats, Floats]:
    if names is None:
        raise InputError("bounds are by column name and X has no names: give (lows, highs), one for each column")
    lacking = [name for name in names if name not in bounds]
    if lacking:
        raise InputError(f"bounds has no {', '.join(map(repr, lacking[:5]))}: give (low, high) for every column of X")
    ends = [pair(bounds[name], f"bounds of {name}") for name in names]
    return _each([low for low, _ in ends], "low", len(names)), _each([high for _, high in ends], "high", len(names))
