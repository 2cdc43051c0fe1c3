"""A party's records, read by its own layout and encoded by a schema: exact integers, targets, units.

Cells become numbers in `parley.learning.cells`. Errors name file, line and column. A number that is not finite is
refused; one outside the public bounds is cut to them and counted. The counts stay on this machine: they are facts about
private data.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parley.learning.cells import column_of, cut, encode_column, encode_target
from parley.learning.columns import Category, Number, Uniform
from parley.learning.errors import SchemaError
from parley.learning.feature_cache import FeatureCache
from parley.learning.features import Extract, unknown_code, with_features
from parley.learning.holding import CSV, Layout
from parley.learning.readers import Data, Dense, Sparse, Table, read
from parley.learning.rows import SPARSE_GAIN, DenseRows, Rows, SparseRows, integer_type
from parley.learning.schema import Schema
from parley.learning.spreads import Spread, spread_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

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
    null: Flags | None = None
    """bool[units]: whose records count for nothing (`parley.learning.exclusion`). Local: never sent anywhere."""

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
        null = None if self.null is None else self.null[indices]
        return Records(rows, self.targets[indices], row_bound=self.row_bound, null=null)


def of_units(records: Records, units: Integers) -> Records:
    """The records of these units of privacy."""
    if records.unit_column is None:
        return records.select(units)
    members = records.members[units]
    rows = np.unique(members[members >= 0])
    places = np.full(len(records.rows) + 1, -1, np.int64)
    places[rows] = np.arange(len(rows))  # the last place stays −1: no record
    plain = replace(records, unit_column=None, null=None).select(rows)
    null = None if records.null is None else records.null[units]
    return replace(plain, unit_column=records.unit_column, members=places[members], null=null)


def load(paths: Sequence[Path], schema: Schema, layout: Layout = CSV, extract: Extract = unknown_code) -> Records:
    """Read and encode; refuses what the schema does not cover."""
    return encode(read(paths, layout, schema.target.name), schema, layout, extract=extract)


def encode(
    data: Data,
    schema: Schema,
    layout: Layout = CSV,
    spreads: dict[str, Spread] | None = None,
    extract: Extract = unknown_code,
    cache: FeatureCache | None = None,
    null: Flags | None = None,
) -> Records:
    """What was read, as the model sees it; the layout says which cells count as empty, and how days are written.

    How values lie between their bounds goes into `spreads`: for local eyes, where somebody asks. `extract` runs a
    transform that is an institution's own code; `cache` keeps what comes of it. Rows that `null` flags (bool[rows]) are
    zero from here on, whatever they hold, and their units never present in an answer.
    """
    adjusted: dict[str, int] = {}
    rows = encode_features(data, schema, adjusted, layout, spreads, extract, cache, null)
    targets = encode_target(data, schema.target, adjusted, layout)
    if spreads is not None and schema.target.kind == "number":
        values = targets * schema.target.spread + schema.target.centre
        spreads[schema.target.name] = spread_of(schema.target, values, adjusted.get(schema.target.name, 0))
    if not len(rows):
        raise SchemaError("the file has no records")
    if len(targets) != len(rows):
        raise SchemaError(f"{len(targets)} labels for {len(rows)} rows: the two files do not belong together")
    if null is not None:
        targets = np.where(null, 0.0, targets)
    if schema.unit is None or not isinstance(data, Table):
        return Records(rows, targets, adjusted=adjusted, row_bound=schema.feature_bound, null=null)
    members = unit_members(data, schema.unit, schema.records_per_unit, adjusted, layout)
    units = None if null is None else null[members[:, 0]]
    return Records(rows, targets, schema.unit, members, adjusted, schema.feature_bound, units)


def encode_features(
    data: Data,
    schema: Schema,
    adjusted: dict[str, int],
    layout: Layout = CSV,
    spreads: dict[str, Spread] | None = None,
    extract: Extract = unknown_code,
    cache: FeatureCache | None = None,
    null: Flags | None = None,
) -> Rows:
    """Features only: what a finished model is asked about has no label yet."""
    if schema.transform:
        # Zero before the transform, so that nothing is computed of them, and after it, for it may make something of 0.
        columns = encode_features(data, schema.before, adjusted, layout, spreads, null=null)
        make = partial(with_features, columns, schema, extract)
        return nulled(make() if cache is None else cache.rows(columns, schema, make), null)
    if isinstance(data, Table):
        return nulled(_from_table(data, schema, adjusted, layout, spreads), null)
    if spreads is not None and isinstance(schema.features, Uniform):
        spreads["features"] = _spread_of_all(data, schema.features)
    found = _from_sparse(data, schema, adjusted) if isinstance(data, Sparse) else _from_dense(data, schema, adjusted)
    return nulled(found, null)


def nulled(rows: Rows, null: Flags | None) -> Rows:
    """The same with zero rows where they are flagged; their norms too. Dense ones in place: no second copy."""
    if null is None:
        return rows
    if isinstance(rows, SparseRows):
        kept = ~null[:, None]
        return SparseRows.of(np.where(kept, rows.columns, 0), np.where(kept, rows.values, 0), rows.bits, rows.dimension)
    assert isinstance(rows, DenseRows)
    rows.values[null] = 0
    return DenseRows.of(rows.values, rows.bits)


def _spread_of_all(data: Sparse | Dense, features: Uniform) -> Spread:
    """Of all columns under one bound; what a sparse file does not store is 0."""
    one = Number("features", features.low, features.high, 0.0, 1.0)
    values = np.asarray(data.values, np.float64).ravel()
    if isinstance(data, Sparse):
        values = np.append(values, 0.0)
    return spread_of(one, values, int(((values < one.low) | (values > one.high)).sum()))


def _from_table(
    table: Table, schema: Schema, adjusted: dict[str, int], layout: Layout, spreads: dict[str, Spread] | None
) -> Rows:
    """Column by column into what is kept: no second copy of all of it."""
    if isinstance(schema.features, Uniform):
        raise SchemaError(
            "a table needs features by name, and `count` is for npz, idx and libsvm files: write features = "
            '[ { names = ["p0", "p1", …], low = 0, high = 255 } ], or take them from `parley schema draft FILE`'
        )
    held = np.zeros((table.count, schema.dimension), integer_type(schema.integer_reach))
    scale, start = 2.0**schema.fraction_bits, 0
    for feature in schema.features:
        values = encode_column(table, feature, layout, adjusted, held[:, start : start + feature.width], scale)
        if spreads is not None and values is not None and not isinstance(feature, Category):
            spreads[feature.name] = spread_of(feature, values, adjusted.get(feature.name, 0))
        start += feature.width
    if schema.intercept:
        held[:, start:] = int(scale)
    return DenseRows.of(held, schema.fraction_bits, schema.integer_reach)


def _scaled(values: Floats, features: Uniform, bits: int, adjusted: dict[str, int]) -> Floats:
    within = cut(values, features.low, features.high, "features", adjusted)
    return np.rint((within - features.centre) / features.spread * 2.0**bits)


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
            place = f"{data.origin.at(start + row)}, column {column + 1}"
            raise SchemaError(f"{place}: {values[row, column]} is not finite")
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
            where = f"{data.origin.at(owner[first])}, column {data.columns[first] + 1}"
            raise SchemaError(f"{where} {what}: the schema refuses it")
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


def unit_names(table: Table, column: str, layout: Layout) -> Iterator[str]:
    """Whose record each row is."""
    for row, cell in enumerate(column_of(table, column)):
        name = "" if cell is None else str(cell).strip()
        if not name or name in layout.missing:
            raise SchemaError(f"{table.origin.at(row)}, column {column} is empty: whose record is it?")
        yield name


def unit_members(table: Table, column: str, most: int, adjusted: dict[str, int], layout: Layout) -> Integers:
    """Row numbers by unit, at most `most` each, in order of first appearance."""
    units: dict[str, list[int]] = {}
    for row, name in enumerate(unit_names(table, column, layout)):
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
