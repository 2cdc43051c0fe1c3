"""Files as an institution has them: CSV, Parquet, JSON lines, LIBSVM, NPZ, IDX, and .xz/.bz2/.gz around them.

Readers know what a file looks like (`parley.learning.holding.Layout`, the institution's own), not what it means: they
return all cells or numbers, and `parley.learning.records` applies a schema. Parquet needs pyarrow (the `parquet` extra)
and is imported when asked for, because a party's long-running process stays light.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.files import endless
from parley.learning.errors import DataError
from parley.learning.holding import Layout

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


OPENERS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}


@dataclass(frozen=True)
class Origin:
    """Where rows are from, for messages to people."""

    file: str = ""
    lines: Integers | None = None
    """Of each row, counted from 1 as an editor does; none where a file has no lines."""

    def at(self, row: int) -> str:
        """A row, counted from 0."""
        place = f"row {row + 1:,}" if self.lines is None else f"line {self.lines[row]:,}"
        return f"{self.file}, {place}" if self.file else place


@dataclass(frozen=True)
class Table:
    """Columns of cells by name; numbers stay numbers where the file has them."""

    columns: dict[str, Sequence[Any]]
    count: int
    origin: Origin = Origin()


@dataclass(frozen=True)
class Sparse:
    """Rows of a LIBSVM file: label, and positions and values one after the other."""

    labels: list[str]
    starts: Integers
    """int64[rows + 1]"""
    columns: Integers
    """Counted from 0."""
    values: Floats
    origin: Origin = Origin()


@dataclass(frozen=True)
class Dense:
    """A matrix and its labels."""

    values: NDArray[Any]
    labels: NDArray[Any]
    origin: Origin = Origin()


Data = Table | Sparse | Dense


def read(paths: Sequence[Path], layout: Layout, target: str, raw: Sequence[bytes] | None = None) -> Data:
    """One file, or for IDX the images and then the labels. `target` names an NPZ archive's array of labels.

    `raw` is what the files hold where that was read already, so that what is digested is what is parsed.
    """
    sources = [Source(path, None if raw is None else raw[index]) for index, path in enumerate(paths)]
    for path in paths if raw is None else ():
        _require_regular(path)
    if layout.format == "idx":
        if len(paths) != 2:
            raise DataError("an idx data set is two files: give the images, then the labels")
        values, labels = _idx(sources[0]), _idx(sources[1])
        return Dense(values.reshape(len(values), -1), labels, Origin(sources[0].name))
    if len(paths) != 1:
        raise DataError(f"a {layout.format} data set is one file, {len(paths)} were given")
    if layout.format == "csv":
        return _csv(sources[0], layout)
    if layout.format == "jsonl":
        return _json_lines(sources[0])
    if layout.format == "libsvm":
        return _libsvm(sources[0], layout)
    if layout.format == "npz":
        return _npz(sources[0], target)
    return _parquet(sources[0])


@dataclass(frozen=True)
class Source:
    """A file, or what it held when it was read."""

    path: Path
    raw: bytes | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def opened(self) -> IO[bytes]:
        return open_binary(self.path) if self.raw is None else unpacked(self.path, io.BytesIO(self.raw))


def _require_regular(path: Path) -> None:
    """What is a pipe or a device may never end."""
    if endless(path):
        raise DataError(f"{path.name} is no regular file: write its rows into one first")


def unpacked(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Whatever compression the name tells."""
    found: IO[bytes] = OPENERS[path.suffix](file, "rb") if path.suffix in OPENERS else file
    return found


def open_binary(path: Path) -> IO[bytes]:
    """Whatever compression the name tells."""
    _require_regular(path)
    try:
        found: IO[bytes] = OPENERS.get(path.suffix, open)(path, "rb")
    except OSError as error:
        raise DataError(f"{path.name}: {error.strerror or error}") from None
    return found


def bytes_of(source: Source) -> bytes:
    """All that is in it, unpacked."""
    try:
        with source.opened() as file:
            return file.read()
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{source.name} cannot be read ({error}): check the file and its ending") from None


def _text(source: Source, layout: Layout) -> str:
    encoding = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    try:
        return bytes_of(source).decode(encoding)
    except UnicodeError as error:
        raise DataError(
            f"{source.name} is not {layout.encoding} text ({error}): convert it, or say its encoding"
        ) from None


def _csv(source: Source, layout: Layout) -> Table:
    reader = csv.reader(
        lines_of(_text(source, layout))[layout.skip :], delimiter=layout.delimiter, skipinitialspace=True
    )
    rows, lines, before = [], [], 0
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(before + layout.skip + 1)  # a row in quotes may go over several
            before = reader.line_num
    except csv.Error as error:
        raise DataError(
            f"{source.name}, line {reader.line_num + layout.skip} is not CSV ({error}): correct it"
        ) from None
    if not rows:
        raise DataError(f"{source.name} has no rows")
    names = [name.strip() for name in (rows[0] if layout.header else layout.columns)]
    if len(set(names)) < len(names):
        raise DataError(f"{source.name} has one column name twice: rename one, or name the columns in schema.toml")
    if layout.header:
        rows, lines = rows[1:], lines[1:]
    origin = Origin(source.name, np.array(lines, np.int64))
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise DataError(f"{origin.at(number)} has {len(row)} cells where {len(names)} columns are named")
    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    return Table(dict(zip(names, cells, strict=True)), len(rows), origin)


def lines_of(text: str) -> list[str]:
    """As an editor counts them, whatever else Unicode calls the end of a line."""
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return found if found[-1] else found[:-1]


def _json_lines(source: Source) -> Table:
    """A line with the columns' names, then a line for each row: lists, with numbers as numbers and null where empty."""
    names: list[str] = []
    rows: list[list[Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(bytes_of(source).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{source.name}, line {number} is not JSON: correct it") from None
        wrong = not isinstance(row, list) or any(isinstance(each, list | dict) for each in row)
        if wrong or (names and len(row) != len(names)):
            raise DataError(f"{source.name}, line {number} is no list of {len(names) or 'names'}: correct it")
        if names:
            rows.append(row)
            numbers.append(number)
            continue
        names = [str(each).strip() for each in row]
        if not names or len(set(names)) < len(names):
            raise DataError(f"{source.name}, line {number} names no column, or one twice: correct it")
    if not names:
        raise DataError(f"{source.name} has no rows")
    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    return Table(dict(zip(names, cells, strict=True)), len(rows), Origin(source.name, np.array(numbers, np.int64)))


def _parquet(source: Source) -> Table:
    """All columns: whose rows these are is a matter of the whole file."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError("reading Parquet needs pyarrow: install parley-federation[parquet]") from None
    try:
        table = parquet.read_table(source.path if source.raw is None else io.BytesIO(source.raw))
    except (OSError, ValueError) as error:
        raise DataError(f"{source.name} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    if len(set(table.column_names)) < len(table.column_names):
        raise DataError(f"{source.name} has one column name twice: rename one")
    cells: dict[str, Sequence[Any]] = {name: table.column(name).to_pylist() for name in table.column_names}
    return Table(cells, table.num_rows, Origin(source.name))


def _libsvm(source: Source, layout: Layout) -> Sparse:
    labels: list[str] = []
    lines: list[int] = []
    starts, columns, values = [0], [], []
    for number, line in enumerate(lines_of(_text(source, layout)), 1):
        parts = line.split("#", 1)[0].split()
        if not parts:
            continue
        labels.append(parts[0])
        lines.append(number)
        for part in parts[1:]:
            place, colon, value = part.partition(":")
            try:
                columns.append(int(place) - 1)
                values.append(float(value))
            except ValueError:
                raise DataError(f"{source.name}, line {number}: {part!r} is not index:value") from None
            if not colon or columns[-1] < 0:
                raise DataError(f"{source.name}, line {number}: {part!r} has no index counted from 1")
        starts.append(len(columns))
    origin = Origin(source.name, np.array(lines, np.int64))
    return Sparse(labels, np.array(starts, np.int64), np.array(columns, np.int64), np.array(values, np.float64), origin)


def _npz(source: Source, target: str) -> Dense:
    try:
        with np.load(io.BytesIO(bytes_of(source)), allow_pickle=False) as archive:
            names = set(archive.files)
            if not {"X", target} <= names:
                raise DataError(f"{source.name} has arrays {', '.join(sorted(names))}: it needs X and {target}")
            values, labels = archive["X"], archive[target]
    except (ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{source.name} is not an NPZ archive of plain arrays ({error})") from None
    if values.ndim != 2 or labels.shape != (len(values),):
        raise DataError(
            f"{source.name}: X is {values.shape} and {target} {labels.shape}, give [rows, columns] and [rows]"
        )
    return Dense(values, labels, Origin(source.name))


def _idx(source: Source) -> NDArray[Any]:
    """The format of the MNIST files: two zero bytes, a type code, the number of axes, their lengths, the numbers."""
    kinds = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    raw = bytes_of(source)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in kinds:
        raise DataError(f"{source.name} is not an IDX file")
    axes = raw[3]
    shape = struct.unpack(f">{axes}I", raw[4 : 4 + 4 * axes]) if len(raw) >= 4 + 4 * axes else ()
    kind = np.dtype(kinds[raw[2]])
    if not shape or len(raw) != 4 + 4 * axes + kind.itemsize * int(np.prod(shape)):
        raise DataError(f"{source.name} is cut short, or longer than its header says")
    return np.frombuffer(raw, kind, offset=4 + 4 * axes).reshape(shape)
