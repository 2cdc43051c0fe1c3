"""Whether the records are what their institution's schema.toml says: all of it, once, for its operator's eyes.

Every column is looked at, not those that some manifest asks for; what fits here fits every manifest that `judge` finds
equal, so no later reading fails by what a record holds. What is found, and `warnings_of` it, tells of records: a
party's long-running process never asks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parley.learning.cells import encode_column, encode_target, on_scale, read_numbers
from parley.learning.columns import Category, Column, Date, Number, Target, Uniform
from parley.learning.errors import PartyError, SchemaError
from parley.learning.holding import Holding
from parley.learning.known import known_bounds
from parley.learning.readers import Data, Sparse, Table
from parley.learning.records import encode, unit_members, unit_names
from parley.learning.schema import Schema

Floats = NDArray[np.float64]
MOST_CUT = 0.05
"""Of a column's values, before its bounds are called too narrow."""
LEAST_FILLED = 0.05
"""Of the way from low to high, before a column's bounds are called too wide."""


@dataclass(frozen=True)
class Spread:
    """How a column's values lie between its public bounds. A fact about records."""

    values: int
    """Cells that are not empty."""
    cut: int
    filled: float
    """From the least value to the greatest, after cutting, as a share of low to high."""
    bounds: str
    """As the schema has them."""
    logarithm: bool = False


@dataclass
class Fit:
    """What was found. It tells of records: for this machine's operator alone."""

    records: int = 0
    units: int = 0
    problems: list[str] = field(default_factory=list)
    """One for each column that does not fit, with its first row; empty for records that fit."""
    adjusted: dict[str, int] = field(default_factory=dict)
    """Cells cut to bounds and records left out, by column."""
    columns: int = 0
    """Looked at."""
    spreads: dict[str, Spread] = field(default_factory=dict)
    """Of each column of numbers or days."""

    @property
    def fits(self) -> bool:
        return not self.problems


def warnings_of(found: Fit) -> list[str]:
    """Bounds that do not suit the records, each with what to write instead; for local eyes only.

    What is recommended is never taken from the records: their own extremes or quantiles would leak.
    """
    return [said for name, spread in found.spreads.items() for said in _warnings(name, spread)]


def _warnings(name: str, spread: Spread) -> Iterator[str]:
    if not spread.values:
        yield f"{name}: every cell is empty: leave the column out, or correct the file"
        return
    if spread.cut > MOST_CUT * spread.values:
        share = spread.cut / spread.values
        yield (
            f"{name}: {spread.bounds} cut {spread.cut:,} of {spread.values:,} values ({share:.0%}): "
            f"{_instead(name, spread, 'wider')}"
        )
    if spread.filled < LEAST_FILLED:
        yield (
            f"{name}: its values fill {spread.filled:.1%} of {spread.bounds}, so they are hard to tell apart under the "
            f"noise: {_instead(name, spread, 'narrower')}"
        )


def _instead(name: str, spread: Spread, which: str) -> str:
    known = known_bounds(name)
    if known is not None and f"low = {known.low:g}, high = {known.high:g}" != spread.bounds:
        return f"write {known.keys} ({known.source}), or take bounds from a codebook"
    log = ', or try transform = "log1p" if most values are small' * (which == "narrower" and not spread.logarithm)
    return f"take {which} bounds from a codebook or the literature, never from the records{log}"


def _spread_of(column: Number | Date | Target, values: Floats, cut: int) -> Spread:
    values = values[~np.isnan(values)]
    low, high = (column.low, column.high) if isinstance(column, Target) else column.cut
    logarithm = isinstance(column, Number) and column.transform == "log1p"
    bounds = (
        f"low = {column.low:g}, high = {column.high:g}"
        if not isinstance(column, Date)
        else (f"low = {column.low}, high = {column.high}")
    )
    if not len(values):
        return Spread(0, 0, 0.0, bounds, logarithm)
    ends = np.clip(np.array([values.min(), values.max(), low, high]), low, high)
    if not isinstance(column, Target):
        ends = on_scale(ends, column)
    return Spread(len(values), cut, float((ends[1] - ends[0]) / (ends[3] - ends[2])), bounds, logarithm)


def fit(data: Data, holding: Holding) -> Fit:
    """Look at every column that any manifest may name, each by itself."""
    found = Fit()
    if isinstance(data, Table):
        _table(data, holding, found)
    else:
        for schema in holding.whole():
            _look(found, partial(_encoded, found, data, schema, holding))
        found.columns = holding.features.width if isinstance(holding.features, Uniform) else 0
    if not found.problems and found.units != holding.units:
        found.problems.append(
            f"there are {found.units:,} units and schema.toml says {holding.units:,}: correct units, or the file"
        )
    return found


def _table(data: Table, holding: Holding, found: Fit) -> None:
    found.records = found.units = data.count
    if not data.count:
        found.problems.append("the file has no records")
    features = () if isinstance(holding.features, Uniform) else holding.features
    for feature in features:
        _look(found, partial(_column, found, data, feature, holding))
    for target in holding.targets:
        _look(found, partial(_target, found, data, target, holding))
    found.columns = len(features) + len(holding.targets)
    if holding.unit is not None:
        _look(found, partial(_count_units, found, data, holding.unit, holding))
        found.columns += 1


def _column(found: Fit, data: Table, column: Column, holding: Holding) -> None:
    # Nothing is kept of it: one column at a time, whatever the number of them.
    into = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (data.count, column.width), (0, 0))
    adjusted: dict[str, int] = {}
    values = encode_column(data, column, holding.layout, adjusted, into, 0.0)
    found.adjusted |= adjusted
    if values is not None and not isinstance(column, Category):
        found.spreads[column.name] = _spread_of(column, values, adjusted.get(column.name, 0))


def _target(found: Fit, data: Table, target: Target, holding: Holding) -> None:
    adjusted: dict[str, int] = {}
    encode_target(data, target, adjusted, holding.layout)
    found.adjusted |= adjusted
    if target.kind == "number":
        values = read_numbers(data, target, holding.layout)
        found.spreads[target.name] = _spread_of(target, values, adjusted.get(target.name, 0))


def _count_units(found: Fit, data: Table, unit: str, holding: Holding) -> None:
    members = unit_members(data, unit, holding.records_per_unit, found.adjusted, holding.layout)
    found.units = len(members)


def _encoded(found: Fit, data: Data, schema: Schema, holding: Holding) -> None:
    records = encode(data, schema, holding.layout)
    found.records, found.units = len(records.rows), records.units
    found.adjusted |= records.adjusted
    if isinstance(schema.features, Uniform) and not isinstance(data, Table):
        one = Number("features", schema.features.low, schema.features.high, 0.0, 1.0)
        values = np.asarray(data.values, np.float64).ravel()
        if isinstance(data, Sparse):
            values = np.append(values, 0.0)  # what is not stored
        found.spreads["features"] = _spread_of(one, values, records.adjusted.get("features", 0))


def _look(found: Fit, what: Callable[[], object]) -> None:
    try:
        what()
    except PartyError as error:
        found.problems.append(str(error))


def population_rows(data: Data, holding: Holding) -> Iterator[bytes]:
    """Whose data this is: each unit's own name where a unit column is declared, else each whole row of the file.

    Of the file itself with all its columns, whatever a manifest asks of it: two studies on other columns of one file
    are about the same people.
    """
    if holding.unit is not None:
        if not isinstance(data, Table):
            raise SchemaError("only tables have a unit column")
        for name in unit_names(data, holding.unit, holding.layout):
            yield b"unit\x1f" + name.encode()
    elif isinstance(data, Table):
        names = sorted(data.columns)
        for cells in zip(*(data.columns[name] for name in names), strict=True):
            yield "\x1f".join("" if cell is None else str(cell).strip() for cell in cells).encode()
    elif isinstance(data, Sparse):
        for row, label in enumerate(data.labels):
            part = slice(data.starts[row], data.starts[row + 1])
            yield label.encode() + data.columns[part].tobytes() + data.values[part].tobytes()
    else:
        for values, label in zip(data.values, data.labels, strict=True):
            yield values.tobytes() + label.tobytes()
