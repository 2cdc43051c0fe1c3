"""Whether the records are what their institution's schema.toml says: all of it, once, for its operator's eyes.

Every column is looked at, not those that some manifest asks for; what fits here fits every manifest that `judge` finds
equal, so no later reading fails by what a record holds. What is found tells of records: a party's
long-running process never asks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from parley.learning.cells import encode_column, encode_target, read_numbers
from parley.learning.columns import Category, Column, Target, Uniform
from parley.learning.errors import PartyError, SchemaError
from parley.learning.holding import Holding, Layout
from parley.learning.readers import Data, Sparse, Table
from parley.learning.records import encode, unit_members, unit_names
from parley.learning.schema import Schema
from parley.learning.spreads import Spread, spread_of


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
    look_at(found, data, (*features, *holding.targets), holding.layout)
    if holding.unit is not None:
        _look(found, partial(_count_units, found, data, holding.unit, holding))
        found.columns += 1


def look_at(found: Fit, data: Table, columns: Iterable[Column | Target], layout: Layout) -> None:
    """Each by itself; `found` says what is wrong with it, and how its values lie."""
    for column in columns:
        if isinstance(column, Target):
            _look(found, partial(_target, found, data, column, layout))
        else:
            _look(found, partial(_column, found, data, column, layout))
        found.columns += 1


def _column(found: Fit, data: Table, column: Column, layout: Layout) -> None:
    # Nothing is kept of it: one column at a time, whatever the number of them.
    into = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (data.count, column.width), (0, 0))
    adjusted: dict[str, int] = {}
    values = encode_column(data, column, layout, adjusted, into, 0.0)
    found.adjusted |= adjusted
    if values is not None and not isinstance(column, Category):
        found.spreads[column.name] = spread_of(column, values, adjusted.get(column.name, 0))


def _target(found: Fit, data: Table, target: Target, layout: Layout) -> None:
    adjusted: dict[str, int] = {}
    encode_target(data, target, adjusted, layout)
    found.adjusted |= adjusted
    if target.kind == "number":
        values = read_numbers(data, target, layout)
        found.spreads[target.name] = spread_of(target, values, adjusted.get(target.name, 0))


def _count_units(found: Fit, data: Table, unit: str, holding: Holding) -> None:
    members = unit_members(data, unit, holding.records_per_unit, found.adjusted, holding.layout)
    found.units = len(members)


def _encoded(found: Fit, data: Data, schema: Schema, holding: Holding) -> None:
    records = encode(data, schema, holding.layout, found.spreads)
    found.records, found.units = len(records.rows), records.units
    found.adjusted |= records.adjusted


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
