"""From the cells of one column to encoded integers: what a contribution rests on, cell by cell.

Whether a cell is read at all is a matter of the column's fields and the institution's layout, both public; so what fits
once, when an operator compares records with schema.toml, fits every reading after it. A value is cut to the bounds in
the column's own unit and, after its transform, to the bounds again: whatever a logarithm rounds to, no encoded cell
lies beyond what the schema says.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parley.learning.checks import label_of
from parley.learning.columns import Category, Column, Date, Number, Target
from parley.learning.days import reader_of_days
from parley.learning.errors import SchemaError
from parley.learning.holding import Layout
from parley.learning.readers import Data, Origin, Table

Floats = NDArray[np.float64]


def column_of(table: Table, name: str) -> Sequence[Any]:
    """The cells under a name."""
    if name not in table.columns:
        known = ", ".join(list(table.columns)[:20])
        raise SchemaError(f"no column {name!r} in {table.origin.file or 'the file'}: it has {known}")
    return table.columns[name]


def emptiness(missing: tuple[str, ...]) -> Callable[[Any], bool]:
    """Whether a cell counts as empty: by its text, or as a number that is one of those words (nan too)."""
    words = frozenset(missing)
    figures = frozenset(float(each) for each in missing if _is_number(each))
    nothing = any(each.lower() == "nan" for each in missing)

    def empty(cell: Any) -> bool:
        if cell is None:
            return True
        if isinstance(cell, str):
            return cell.strip() in words
        if cell != cell:  # a NaN, or a NaT
            return nothing
        return bool(figures) and isinstance(cell, numbers.Number) and cast(Any, cell) in figures

    return empty


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def read_numbers(table: Table, column: Number | Date | Target, layout: Layout) -> Floats:
    """Cells in the column's own unit, nan where empty; a date's are days after its `low`."""
    origin, name = table.origin, column.name
    if isinstance(column, Date):
        read = reader_of_days(layout.days)
        return _read(column_of(table, name), name, layout, origin, read, "a day") - column.first
    return _read(column_of(table, name), name, layout, origin, float, "a number")


def _read(
    cells: Sequence[Any], name: str, layout: Layout, origin: Origin, read: Callable[[Any], float], what: str
) -> Floats:
    empty = emptiness(layout.missing)
    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if empty(cell):
            found[row] = np.nan
            continue
        try:
            value = read(cell)
        except (TypeError, ValueError, OverflowError):
            raise SchemaError(f"{origin.at(row)}, column {name}: {str(cell)[:40]!r} is not {what}") from None
        if not math.isfinite(value):
            raise SchemaError(f"{origin.at(row)}, column {name}: {value} is not finite")
        found[row] = value
    return found


def cut(values: Floats, low: float, high: float, name: str, adjusted: dict[str, int]) -> Floats:
    """To the bounds, and counted."""
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        adjusted[name] = adjusted.get(name, 0) + outside
    return np.clip(values, low, high)


def on_scale(values: Floats, column: Number | Date) -> Floats:
    """Values within the bounds, as `centre` and `spread` count them; nan stays nan."""
    if isinstance(column, Number) and column.transform == "log1p":
        return np.clip(np.log1p(values), *column.ends)
    return values


def encode_column(
    table: Table, column: Column, layout: Layout, adjusted: dict[str, int], into: NDArray[np.number], scale: float
) -> Floats | None:
    """One column's encoded columns, integers[rows, width], which are zero so far.

    Returns a number's or a date's values, in its own unit and uncut: for local eyes (`parley.learning.fit`).
    """
    if isinstance(column, Category):
        _encode_labels(table, column, layout, adjusted, into, int(scale))
        return None
    values = read_numbers(table, column, layout)
    empty = np.isnan(values)
    if empty.any() and column.missing == "refuse":
        place = table.origin.at(int(np.flatnonzero(empty)[0]))
        raise SchemaError(f"{place}, column {column.name} is empty: give the schema a rule for missing values")
    low, high = column.cut
    within = on_scale(cut(np.where(empty, low, values), low, high, column.name, adjusted), column)
    into[:, 0] = np.rint(np.where(empty, 0.0, (within - column.centre) / column.spread) * scale)
    if column.indicated:
        into[:, 1] = empty * int(scale)
    return values


def _encode_labels(
    table: Table, column: Category, layout: Layout, adjusted: dict[str, int], into: NDArray[np.number], one: int
) -> None:
    places = {label_of(name): index for index, name in enumerate(column.categories)}
    words = frozenset(layout.missing)
    for row, cell in enumerate(column_of(table, column.name)):
        label = "" if cell is None else label_of(cell)
        if cell is not None and label in places:
            into[row, places[label]] = one
            continue
        empty = cell is None or label in words
        rule = column.missing if empty else column.other
        if rule == "refuse":
            what = "is empty" if empty else f"has {label[:40]!r}, which the schema does not list"
            place = f"{table.origin.at(row)}, column {column.name}"
            raise SchemaError(f'{place} {what}: add a category, or {"missing" if empty else "other"} = "zero"')
        if not empty:
            adjusted[column.name] = adjusted.get(column.name, 0) + 1
        if empty and column.indicated:
            into[row, len(column.categories)] = one
        elif rule != "zero":
            into[row, places[label_of(rule)]] = one


def encode_target(data: Data, target: Target, adjusted: dict[str, int], layout: Layout) -> Floats:
    """Of every row."""
    origin = data.origin
    if not isinstance(data, Table):
        data = Table({target.name: [label_of(each) for each in data.labels]}, len(data.labels), origin)
    if target.kind == "number":
        values = read_numbers(data, target, layout)
        if np.isnan(values).any():
            place = origin.at(int(np.flatnonzero(np.isnan(values))[0]))
            raise SchemaError(f"{place}, column {target.name} is empty")
        return np.asarray((cut(values, target.low, target.high, target.name, adjusted) - target.centre) / target.spread)
    if target.kind == "binary":
        places = {label_of(each): 1.0 for each in target.positive} | {label_of(each): 0.0 for each in target.negative}
    else:
        places = {label_of(each): float(index) for index, each in enumerate(target.classes)}
    found = np.empty(len(column_of(data, target.name)))
    for row, cell in enumerate(column_of(data, target.name)):
        label = "" if cell is None else label_of(cell)
        if label not in places:
            where = f"{origin.at(row)}, column {target.name}"
            raise SchemaError(f"{where} has {label[:40]!r}: the schema does not list it")
        found[row] = places[label]
    return found
