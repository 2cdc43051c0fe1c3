"""A party's records, read by its own layout and encoded by a schema: exact integers, targets, units.

Errors name row and column. A number that is not finite is refused; one outside the public bounds is cut to them and
counted. The counts stay on this machine: they are facts about private data.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import SchemaError
from parley.learning.holding import CSV, Layout
from parley.learning.readers import Data, Dense, Sparse, Table, read
from parley.learning.rows import SPARSE_GAIN, DenseRows, Rows, SparseRows, integer_type
from parley.learning.schema import Category, Number, Schema, Target, Uniform, label_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Records:
    """What a `Contributor` computes on."""

    rows: Rows
    targets: Floats
    unit_column: str | None = None
    members: Integers = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    """int64[units, records_per_unit], −1 where a unit has fewer; unused for rows as units."""
    adjusted: dict[str, int] = field(default_factory=dict)
    """Cells cut to bounds and records left out, by column. Local: never sent anywhere."""
    row_bound: float = math.inf
    """A public bound on every row's norm, in the data's unit: the schema's. Without one no query may rest on one."""

    @property
    def units(self) -> int:
        return len(self.members) if self.unit_column else len(self.rows)

    @property
    def records_per_unit(self) -> int:
        return int(self.members.shape[1]) if self.unit_column else 1

    def unit_members(self, indices: Integers) -> Integers:
        """Row numbers of these units, int64[units, records_per_unit], −1 where there is none."""
        return self.members[indices] if self.unit_column else indices[:, None]

    def select(self, indices: Integers) -> "Records":
        """The records of these rows: for splitting a file over simulated parties. Rows as units only."""
        if self.unit_column:
            raise SchemaError("records grouped by a unit cannot be split by row: split the file by unit")
        if isinstance(self.rows, SparseRows):
            columns = self.rows.columns[indices]
            rows: Rows = SparseRows.of(columns, self.rows.values[indices], self.rows.bits, self.rows.dimension)
        else:
            assert isinstance(self.rows, DenseRows)
            rows = DenseRows.of(self.rows.values[indices], self.rows.bits)
        return Records(rows, self.targets[indices], row_bound=self.row_bound)


def load(paths: Sequence[Path], schema: Schema, layout: Layout = CSV) -> Records:
    """Read and encode; refuses what the schema does not cover."""
    return encode(read(paths, layout, schema.target.name), schema, layout.missing)


def encode(data: Data, schema: Schema, missing: tuple[str, ...] = CSV.missing) -> Records:
    """What was read, as the model sees it; cells that are among `missing` count as empty."""
    adjusted: dict[str, int] = {}
    rows = encode_features(data, schema, adjusted, missing)
    targets = encode_target(data, schema.target, adjusted, missing)
    if not len(rows):
        raise SchemaError("the file has no records")
    if len(targets) != len(rows):
        raise SchemaError(f"{len(targets)} labels for {len(rows)} rows: the two files do not belong together")
    if schema.unit is None or not isinstance(data, Table):
        return Records(rows, targets, adjusted=adjusted, row_bound=schema.feature_bound)
    members = unit_members(data, schema.unit, schema.records_per_unit, adjusted, missing)
    return Records(rows, targets, schema.unit, members, adjusted, schema.feature_bound)


def encode_features(
    data: Data, schema: Schema, adjusted: dict[str, int], missing: tuple[str, ...] = CSV.missing
) -> Rows:
    """Features only: what a finished model is asked about has no label yet."""
    if isinstance(data, Table):
        return _from_table(data, schema, adjusted, missing)
    return _from_sparse(data, schema, adjusted) if isinstance(data, Sparse) else _from_dense(data, schema, adjusted)


def encode_target(data: Data, target: Target, adjusted: dict[str, int], missing: tuple[str, ...]) -> Floats:
    """Of every row."""
    if isinstance(data, Table):
        return _targets(_column(data, target.name), target, missing, adjusted)
    return _targets([label_of(each) for each in data.labels], target, missing, adjusted)


def _column(table: Table, name: str) -> Sequence[Any]:
    if name not in table.columns:
        known = ", ".join(list(table.columns)[:20])
        raise SchemaError(f"no column {name!r} in the file: it has {known}")
    return table.columns[name]


def _numbers(cells: Sequence[Any], name: str, missing: tuple[str, ...]) -> Floats:
    """Cells as floats, nan where missing."""
    found = np.empty(len(cells))
    for index, cell in enumerate(cells):
        if cell is None or (isinstance(cell, str) and cell.strip() in missing):
            found[index] = np.nan
            continue
        try:
            found[index] = float(cell)
        except (TypeError, ValueError):
            raise SchemaError(f"row {index + 1}, column {name}: {str(cell)[:40]!r} is not a number") from None
        if not np.isfinite(found[index]):
            raise SchemaError(f"row {index + 1}, column {name}: {found[index]} is not finite")
    return found


def _cut(values: Floats, low: float, high: float, name: str, adjusted: dict[str, int]) -> Floats:
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        adjusted[name] = adjusted.get(name, 0) + outside
    return np.clip(values, low, high)


def _from_table(table: Table, schema: Schema, adjusted: dict[str, int], missing: tuple[str, ...]) -> Rows:
    """Column by column into what is kept: no second copy of all of it."""
    if isinstance(schema.features, Uniform):
        raise SchemaError("a table needs features by name")
    held = np.zeros((table.count, schema.dimension), integer_type(schema.integer_reach))
    scale, start = 2.0**schema.fraction_bits, 0
    for feature in schema.features:
        encode_column(table, feature, missing, adjusted, held[:, start : start + feature.width], scale)
        start += feature.width
    if schema.intercept:
        held[:, start:] = int(scale)
    return DenseRows.of(held, schema.fraction_bits, schema.integer_reach)


def encode_column(
    table: Table,
    feature: Number | Category,
    missing: tuple[str, ...],
    adjusted: dict[str, int],
    into: NDArray[np.number],
    scale: float,
) -> None:
    """One column's encoded columns, integers[rows, width], which are zero so far."""
    cells = _column(table, feature.name)
    if isinstance(feature, Number):
        into[:, 0] = np.rint(_number(cells, feature, missing, adjusted) * scale)
    else:
        _category(cells, feature, missing, adjusted, into, int(scale))


def _number(cells: Sequence[Any], feature: Number, missing: tuple[str, ...], adjusted: dict[str, int]) -> Floats:
    values = _numbers(cells, feature.name, missing)
    empty = np.isnan(values)
    if empty.any() and feature.missing == "refuse":
        row = int(np.flatnonzero(empty)[0]) + 1
        raise SchemaError(f"row {row}, column {feature.name} is empty: give the schema a rule for missing values")
    cut = _cut(np.where(empty, feature.centre, values), feature.low, feature.high, feature.name, adjusted)
    return np.where(empty, 0.0, (cut - feature.centre) / feature.spread)


def _category(
    cells: Sequence[Any],
    feature: Category,
    missing: tuple[str, ...],
    adjusted: dict[str, int],
    into: NDArray[np.number],
    one: int,
) -> None:
    places = {label_of(name): index for index, name in enumerate(feature.categories)}
    for row, cell in enumerate(cells):
        label = "" if cell is None else label_of(cell)
        if cell is not None and label in places:
            into[row, places[label]] = one
            continue
        empty = cell is None or label in missing
        rule = feature.missing if empty else feature.other
        if rule == "refuse":
            what = "is empty" if empty else f"has {label[:40]!r}, which the schema does not list"
            raise SchemaError(f"row {row + 1}, column {feature.name} {what}: add a category or a rule")
        if not empty:
            adjusted[feature.name] = adjusted.get(feature.name, 0) + 1
        if rule != "zero":
            into[row, places[label_of(rule)]] = one


def _scaled(values: Floats, features: Uniform, bits: int, adjusted: dict[str, int]) -> Floats:
    cut = _cut(values, features.low, features.high, "features", adjusted)
    return np.rint((cut - features.centre) / features.spread * 2.0**bits)


def _from_dense(data: Dense, schema: Schema, adjusted: dict[str, int]) -> Rows:
    features = schema.features
    if not isinstance(features, Uniform) or data.values.shape[1] != features.count:
        raise SchemaError(
            f"the file has {data.values.shape[1]} columns and the schema {schema.width}: correct its count"
        )
    bits = schema.fraction_bits
    held = np.zeros((len(data.values), schema.dimension), integer_type(schema.integer_reach))
    held[:, features.count :] = 1 << bits  # the intercept, if any
    for start in range(0, len(data.values), ROWS_AT_ONCE):
        values = data.values[start : start + ROWS_AT_ONCE].astype(np.float64)
        if not np.isfinite(values).all():
            row, column = (int(each[0]) for each in np.nonzero(~np.isfinite(values)))
            raise SchemaError(f"row {start + row + 1}, column {column + 1}: {values[row, column]} is not finite")
        held[start : start + ROWS_AT_ONCE, : features.count] = _scaled(values, features, bits, adjusted)
    return DenseRows.of(held, bits, schema.integer_reach)


def _from_sparse(data: Sparse, schema: Schema, adjusted: dict[str, int]) -> Rows:
    features = schema.features
    if not isinstance(features, Uniform) or features.centre != 0 or not features.low <= 0 <= features.high:
        raise SchemaError("a sparse file's features need a centre of 0 within their bounds, for what is not stored")
    count, bits = len(data.labels), schema.fraction_bits
    owner = np.repeat(np.arange(count), np.diff(data.starts))
    for bad, what in ((~np.isfinite(data.values), "is not finite"), (data.columns >= features.count, "is not listed")):
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise SchemaError(f"row {owner[first] + 1}, column {data.columns[first] + 1} {what}: the schema refuses it")
    place = np.arange(len(owner)) - data.starts[owner]
    width = min(schema.nonzeros or features.count, features.count)
    kept = place < width
    if not kept.all():
        adjusted["non-zeros left out"] = int((~kept).sum())
    owner, place, columns = owner[kept], place[kept], data.columns[kept]
    values = _scaled(data.values[kept], features, bits, adjusted)
    if len(np.unique(owner * features.count + columns)) < len(owner):
        raise SchemaError("a row names one column twice: merge the two entries")
    if (width + 1) * SPARSE_GAIN > schema.dimension:
        dense = np.zeros((count, schema.dimension), integer_type(schema.integer_reach))
        dense[owner, columns] = values
        dense[:, features.count :] = 1 << bits
        return DenseRows.of(dense, bits, schema.integer_reach)
    table = np.zeros((2, count, width + schema.intercept))
    table[0, owner, place], table[1, owner, place] = columns, values
    if schema.intercept:
        table[0, :, -1], table[1, :, -1] = features.count, 2.0**bits
    return SparseRows.of(table[0].astype(np.int64), table[1], bits, schema.dimension)


def _targets(cells: Sequence[Any], target: Target, missing: tuple[str, ...], adjusted: dict[str, int]) -> Floats:
    if target.kind == "number":
        values = _numbers(cells, target.name, missing)
        if np.isnan(values).any():
            raise SchemaError(f"row {int(np.flatnonzero(np.isnan(values))[0]) + 1}, column {target.name} is empty")
        cut = _cut(values, target.low, target.high, target.name, adjusted)
        return np.asarray((cut - target.centre) / target.spread)
    if target.kind == "binary":
        places = {label_of(each): 1.0 for each in target.positive} | {label_of(each): 0.0 for each in target.negative}
    else:
        places = {label_of(each): float(index) for index, each in enumerate(target.classes)}
    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        label = "" if cell is None else label_of(cell)
        if label not in places:
            raise SchemaError(f"row {row + 1}, column {target.name} has {label[:40]!r}: the schema does not list it")
        found[row] = places[label]
    return found


def unit_names(table: Table, column: str, missing: tuple[str, ...]) -> Iterator[str]:
    """Whose record each row is."""
    for row, cell in enumerate(_column(table, column)):
        name = "" if cell is None else str(cell).strip()
        if not name or name in missing:
            raise SchemaError(f"row {row + 1}, column {column} is empty: whose record is it?")
        yield name


def unit_members(table: Table, column: str, most: int, adjusted: dict[str, int], missing: tuple[str, ...]) -> Integers:
    """Row numbers by unit, at most `most` each, in order of first appearance."""
    units: dict[str, list[int]] = {}
    for row, name in enumerate(unit_names(table, column, missing)):
        units.setdefault(name, []).append(row)
    members = np.full((len(units), most), -1, np.int64)
    left = 0
    for index, rows in enumerate(units.values()):
        kept = rows[:most]
        left += len(rows) - len(kept)
        members[index, : len(kept)] = kept
    if left:
        adjusted["records left out"] = left
    return members
