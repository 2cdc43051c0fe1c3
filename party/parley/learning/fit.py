"""Whether the records are what their institution's schema.toml says: all of it, once, for its operator's eyes.

Every column is looked at, not those that some manifest asks for; what fits here fits every manifest that `judge` finds
equal, so no later reading fails by what a record holds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from parley.learning.errors import PartyError, SchemaError
from parley.learning.holding import Holding
from parley.learning.readers import Data, Sparse, Table
from parley.learning.records import encode, encode_column, encode_target, unit_members, unit_names
from parley.learning.schema import Schema, Uniform


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
    missing = holding.layout.missing
    found.records = found.units = data.count
    if not data.count:
        found.problems.append("the file has no records")
    features = () if isinstance(holding.features, Uniform) else holding.features
    for feature in features:
        # Nothing is kept of it: one column at a time, whatever the number of them.
        into = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (data.count, feature.width), (0, 0))
        _look(found, partial(encode_column, data, feature, missing, found.adjusted, into, 0.0))
    for target in holding.targets:
        _look(found, partial(encode_target, data, target, found.adjusted, missing))
    found.columns = len(features) + len(holding.targets)
    if holding.unit is not None:
        _look(found, partial(_count_units, found, data, holding.unit, holding))
        found.columns += 1


def _count_units(found: Fit, data: Table, unit: str, holding: Holding) -> None:
    members = unit_members(data, unit, holding.records_per_unit, found.adjusted, holding.layout.missing)
    found.units = len(members)


def _encoded(found: Fit, data: Data, schema: Schema, holding: Holding) -> None:
    records = encode(data, schema, holding.layout.missing)
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
        for name in unit_names(data, holding.unit, holding.layout.missing):
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
