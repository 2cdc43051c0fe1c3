"""Records as a program holds them: data frames, dictionaries and arrays, as what the file readers give.

    table_of(frame)                    # pandas, polars, pyarrow: columns by name, empty cells as None
    table_of({"age": [63, 41], …})     # or a list with one dictionary for each row
    table_of(matrix)                   # numbers without names; with `names`, their columns in that order

No library is imported that has not made what was given: what is no pandas frame is never asked by pandas. A cell that a
library calls missing (None, NaN, NA, NaT, null, masked) is None here, and the schema says what becomes of it. A missing
COLUMN is an error, always: a misspelt name must not become a table of empty cells.
"""

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.columns import Features, Uniform
from parley.learning.errors import DataError
from parley.learning.readers import Dense, Table
from parley.learning.schema import Schema

NUMERIC = "biuf"
"""Kinds of NumPy types that a matrix may have: truth values, whole numbers, floating-point ones."""
EMPTY = frozenset({"NAType", "NaTType"})
"""Names of the classes of pandas.NA and pandas.NaT, whose values are not to be compared."""
SHOWN = 20
"""Columns that an error lists."""


def table_of(given: Any, names: Sequence[str] | None = None) -> Table | Dense:
    """What a reader would have made of it. `names` are for rows and arrays, which have none of their own."""
    if isinstance(given, Table | Dense):
        return given
    if isinstance(given, str | bytes):
        raise DataError(f"{given[:40]!r} is text: give a frame, columns by name, or rows (a path is read elsewhere)")
    for library, columns in FRAMES.items():
        found = columns(sys.modules[library], given) if library in sys.modules else None
        if found is not None:
            return _table(found)
    if isinstance(given, Mapping):
        return _table(given.items())
    if hasattr(given, "__arrow_c_stream__"):
        return _through_arrow(given)
    if hasattr(given, "columns"):
        raise DataError(
            f"a {type(given).__module__.partition('.')[0]} {type(given).__name__} is no frame that is read here: give "
            "one of pandas, polars or pyarrow, or a dictionary of columns"
        )
    if hasattr(given, "toarray") or hasattr(given, "todense"):
        raise DataError("a sparse matrix has no columns by name: make it dense, or write it as a LIBSVM file")
    if hasattr(given, "__array__") or isinstance(given, np.ndarray):
        return _from_array(given if isinstance(given, np.ndarray) else np.asarray(given), names)
    if not isinstance(given, Iterable):
        raise DataError(
            f"{type(given).__name__} is no table: give a data frame, a dictionary of columns, a list of dictionaries, "
            "or a matrix"
        )
    return _from_rows(list(given), names)


def require(table: Table, names: Iterable[str]) -> None:
    """Refuse a table that lacks one of these columns, and say which and what may have been meant."""
    lacking = [name for name in names if name not in table.columns]
    if not lacking:
        return
    guesses = difflib.get_close_matches(lacking[0], list(table.columns), 1)
    meant = f"; did you mean it by {guesses[0]!r}?" if guesses else ""
    raise DataError(
        f"no column {', '.join(map(repr, lacking[:SHOWN]))} in the data: it has "
        f"{', '.join(list(table.columns)[:SHOWN]) or 'none'}{meant}"
    )


Columns = Iterable[tuple[Any, Any]]


def _pandas(pandas: Any, given: Any) -> Columns | None:
    if isinstance(given, pandas.Series):
        raise DataError("a pandas Series is one column: give a frame, such as series.to_frame()")
    if not isinstance(given, pandas.DataFrame):
        return None
    if given.columns.nlevels > 1:
        raise DataError("the frame's columns have several levels: give each column one name")
    return [(name, given.iloc[:, index]) for index, name in enumerate(given.columns)]


def _polars(polars: Any, given: Any) -> Columns | None:
    if isinstance(given, polars.LazyFrame):
        raise DataError("a LazyFrame has no rows yet: give frame.collect()")
    if isinstance(given, polars.Series):
        raise DataError("a polars Series is one column: give a frame, such as series.to_frame()")
    return zip(given.columns, given.get_columns(), strict=True) if isinstance(given, polars.DataFrame) else None


def _pyarrow(pyarrow: Any, given: Any) -> Columns | None:
    if not isinstance(given, pyarrow.Table | pyarrow.RecordBatch):
        return None
    return zip(given.schema.names, given.columns, strict=True)


FRAMES: dict[str, Callable[[Any, Any], Columns | None]] = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}
"""By the library that makes them: (name, column) of what is its frame, None of what is not."""


def _through_arrow(given: Any) -> Table:
    """Of any other library that hands its columns over in Arrow's form, such as DuckDB."""
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"reading a {type(given).__name__} needs pyarrow: install parley-federation[parquet]") from None
    made = pyarrow.table(given)
    return _table(zip(made.schema.names, made.columns, strict=True))


def _table(named: Columns) -> Table:
    columns: dict[str, Sequence[Any]] = {}
    for name, column in named:
        if (text := str(name)) in columns:
            raise DataError(f"the data has the column name {text!r} twice: rename one")
        columns[text] = cells_of(column, text)
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise DataError(
            f"columns differ in length: {short} has {lengths[short]:,} cells and {long} {lengths[long]:,}: "
            "give each a cell for every row"
        )
    return Table(columns, next(iter(lengths.values()), 0))


def cells_of(column: Any, name: str) -> list[Any]:
    """A column as plain Python values, None where it is empty."""
    if isinstance(column, str | bytes | Mapping) or not (hasattr(column, "__iter__") or hasattr(column, "__array__")):
        raise DataError(f"column {name} is one {type(column).__name__}: give a list, with a cell for every row")
    library = type(column).__module__.partition(".")[0]
    if library in ("polars", "pyarrow"):
        return plain(column.to_list() if library == "polars" else column.to_pylist())
    if hasattr(column, "__array__"):
        values = column if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
        if values.ndim != 1:
            raise DataError(f"column {name} has the shape {values.shape}: give one cell for every row")
        return _of_array(values)
    return plain(column)


def _of_array(values: NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "M":
        # Of nanoseconds NumPy makes whole numbers, of microseconds dates and times.
        fine = np.datetime_data(values.dtype)[0] in ("ns", "ps", "fs", "as")
        return list((values.astype("datetime64[us]") if fine else values).tolist())
    return plain(values.tolist())


def plain(cells: Iterable[Any]) -> list[Any]:
    """NumPy's and pandas' own values as Python's, and what is missing as None."""
    return [None if _missing(cell) else _plain(cell) for cell in cells]


def _missing(cell: Any) -> bool:
    if isinstance(cell, float | np.floating):
        return bool(cell != cell)
    return cell is None or type(cell).__name__ in EMPTY or cell is np.ma.masked


def _plain(cell: Any) -> Any:
    if isinstance(cell, np.generic):
        return _of_array(np.asarray([cell]))[0]
    return cell.to_pydatetime() if hasattr(cell, "to_pydatetime") else cell


def _from_array(values: NDArray[Any], names: Sequence[str] | None) -> Table | Dense:
    if values.dtype.names:
        return _table((name, values[name]) for name in values.dtype.names)
    if values.ndim == 1 and values.dtype.kind == "O" and len(values) and isinstance(values[0], Mapping):
        return _from_rows(values.tolist(), names)
    if values.ndim != 2:
        raise DataError(f"an array of shape {values.shape} is no table: give [rows, columns]")
    if names is not None:
        return _named(values, names)
    if values.dtype.kind not in NUMERIC:
        raise DataError(f"a matrix of {values.dtype} has no column names: give a frame, or a dictionary of columns")
    if isinstance(values, np.ma.MaskedArray):
        raise DataError("a masked matrix has no rule for its gaps: give a frame, whose schema has one")
    return Dense(values, np.zeros(len(values)))


def _from_rows(rows: list[Any], names: Sequence[str] | None) -> Table | Dense:
    if not rows:
        return Table({name: [] for name in names or ()}, 0)
    rows = [_row(row) for row in rows]
    if any(isinstance(row, Mapping) for row in rows):
        return _from_dictionaries(rows)
    if any(isinstance(row, str | bytes) or not isinstance(row, Iterable) for row in rows):
        raise DataError("a list that is no list of rows: give one dictionary, or one list of values, for each row")
    listed = [list(row) for row in rows]
    if names is not None:
        for row in listed:
            _check_width(len(row), names)
        return Table({name: plain(row[index] for row in listed) for index, name in enumerate(names)}, len(rows))
    if len({len(row) for row in listed}) > 1:
        raise DataError("the rows are not equally long: give every row a value for each column")
    try:
        return _from_array(np.array(listed), None)
    except ValueError:
        raise DataError("the rows hold lists: give every row one number for each column") from None


def _row(row: Any) -> Any:
    """What has names by its names, never by the order: a record of a database, a named tuple, a row of a frame."""
    if hasattr(row, "_asdict"):
        return row._asdict()
    return dict(row) if hasattr(row, "keys") and not isinstance(row, Mapping) else row


def _from_dictionaries(rows: list[Any]) -> Table:
    if not all(isinstance(row, Mapping) for row in rows):
        raise DataError("some rows are dictionaries and some are not: give one dictionary for each row")
    names = list(rows[0])
    known = set(names)
    for number, row in enumerate(rows, 1):
        if row.keys() == known:
            continue
        lacking, more = [name for name in names if name not in row], [name for name in row if name not in known]
        wrong = f"has no {lacking[0]!r}" if lacking else f"has {more[0]!r}, which row 1 has not"
        raise DataError(f"row {number} {wrong}: give every row the same names, and None for an empty cell")
    return _table((name, [row[name] for row in rows]) for name in names)


def _check_width(width: int, names: Sequence[str]) -> None:
    if width != len(names):
        raise DataError(f"a row needs {len(names)} values in this order: {', '.join(names)}")


def data_of(given: Any, schema: Schema) -> Table | Dense:
    """What `encode_features` takes under a schema, and `encode` too where the target is among the columns."""
    return data_for(given, schema.features, schema.target.name)


def data_for(given: Any, features: Features, target: str | None = None) -> Table | Dense:
    """The same without a schema. Features under one bound are a matrix, or all columns but the target, in order."""
    if isinstance(features, Uniform):
        found = table_of(given)
        return _as_matrix(found, target) if isinstance(found, Table) else found
    names = [feature.name for feature in features]
    found = table_of(given, names)
    table = found if isinstance(found, Table) else _named(found.values, names)
    require(table, names)
    return table


def _named(values: NDArray[Any], names: Sequence[str]) -> Table:
    _check_width(values.shape[1], names)
    return Table({name: _of_array(values[:, index]) for index, name in enumerate(names)}, len(values))


def _as_matrix(table: Table, target: str | None) -> Dense:
    names = [name for name in table.columns if name != target]
    held = np.empty((table.count, len(names)))
    for index, name in enumerate(names):
        cells = table.columns[name]
        try:
            held[:, index] = [float("nan") if cell is None else float(cell) for cell in cells]
        except (TypeError, ValueError):
            raise DataError(f"column {name} holds what is no number: features under one bound are numbers") from None
    return Dense(held, np.zeros(table.count) if target not in table.columns else np.array(table.columns[target]))
