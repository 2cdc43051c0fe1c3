"""Files as an institution has them: CSV, Parquet, LIBSVM, NPZ, IDX, and .xz/.bz2/.gz around them. Imports numpy only.

Readers know formats, not meanings: they return cells or numbers, and `party.records` applies the schema. Parquet needs
pyarrow (the `parquet` extra) and is imported when asked for, because a party's long-running process stays light.
"""

import bz2
import csv
import gzip
import io
import lzma
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from party.errors import DataError
from party.schema import Schema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Columns of cells by name; numbers stay numbers where the file has them."""

    columns: dict[str, Sequence[Any]]
    count: int


@dataclass(frozen=True)
class Sparse:
    """Rows of a LIBSVM file: label, and positions and values one after the other."""

    labels: list[str]
    starts: Integers
    """int64[rows + 1]"""
    columns: Integers
    """Counted from 0."""
    values: Floats


@dataclass(frozen=True)
class Dense:
    """A matrix and its labels."""

    values: NDArray[Any]
    labels: NDArray[Any]


def read(paths: Sequence[Path], schema: Schema) -> Table | Sparse | Dense:
    """One file, or for IDX the images and then the labels."""
    if schema.format == "idx":
        if len(paths) != 2:
            raise DataError("an idx data set is two files: give the images, then the labels")
        values, labels = _idx(paths[0]), _idx(paths[1])
        return Dense(values.reshape(len(values), -1), labels)
    if len(paths) != 1:
        raise DataError(f"a {schema.format} data set is one file, {len(paths)} were given")
    if schema.format == "csv":
        return _csv(paths[0], schema)
    if schema.format == "libsvm":
        return _libsvm(paths[0])
    if schema.format == "npz":
        return _npz(paths[0], schema.target.name)
    return _parquet(paths[0], schema)


def open_binary(path: Path) -> IO[bytes]:
    """Whatever compression the name tells."""
    openers: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
    try:
        found: IO[bytes] = openers.get(path.suffix, open)(path, "rb")
    except OSError as error:
        raise DataError(f"{path.name}: {error.strerror or error}") from None
    return found


def _bytes(path: Path) -> bytes:
    try:
        with open_binary(path) as file:
            return file.read()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path.name} cannot be read ({error}): check the file and its ending") from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 text ({error.reason} at byte {error.start}): convert it") from None


def _csv(path: Path, schema: Schema) -> Table:
    lines = _text(path).splitlines()[schema.skip :]
    reader = csv.reader(lines, delimiter=schema.delimiter, skipinitialspace=True)
    rows = [row for row in reader if row]
    if not rows:
        raise DataError(f"{path.name} has no rows")
    names = rows.pop(0) if schema.header else list(schema.columns)
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise DataError(f"{path.name}, row {number} has {len(row)} cells where {len(names)} columns are named")
    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    return Table({name.strip(): column for name, column in zip(names, cells, strict=True)}, len(rows))


def _parquet(path: Path, schema: Schema) -> Table:
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError("reading Parquet needs pyarrow: install parley-federation[parquet]") from None
    wanted = [feature.name for feature in schema.features] if isinstance(schema.features, tuple) else []
    wanted += [schema.target.name] + ([schema.unit] if schema.unit else [])
    try:
        table = parquet.read_table(path, columns=wanted)
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    return Table({name: table.column(name).to_pylist() for name in table.column_names}, table.num_rows)


def _libsvm(path: Path) -> Sparse:
    labels: list[str] = []
    starts, columns, values = [0], [], []
    for number, line in enumerate(_text(path).splitlines(), 1):
        parts = line.split("#", 1)[0].split()
        if not parts:
            continue
        labels.append(parts[0])
        for part in parts[1:]:
            place, colon, value = part.partition(":")
            try:
                columns.append(int(place) - 1)
                values.append(float(value))
            except ValueError:
                raise DataError(f"{path.name}, line {number}: {part!r} is not index:value") from None
            if not colon or columns[-1] < 0:
                raise DataError(f"{path.name}, line {number}: {part!r} has no index counted from 1")
        starts.append(len(columns))
    return Sparse(labels, np.array(starts, np.int64), np.array(columns, np.int64), np.array(values, np.float64))


def _npz(path: Path, target: str) -> Dense:
    try:
        with np.load(io.BytesIO(_bytes(path)), allow_pickle=False) as archive:
            names = set(archive.files)
            if not {"X", target} <= names:
                raise DataError(f"{path.name} has arrays {', '.join(sorted(names))}: it needs X and {target}")
            values, labels = archive["X"], archive[target]
    except (ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path.name} is not an NPZ archive of plain arrays ({error})") from None
    if values.ndim != 2 or labels.shape != (len(values),):
        raise DataError(
            f"{path.name}: X is {values.shape} and {target} {labels.shape}, give [rows, columns] and [rows]"
        )
    return Dense(values, labels)


def _idx(path: Path) -> NDArray[Any]:
    """The format of the MNIST files: two zero bytes, a type code, the number of axes, their lengths, the numbers."""
    kinds = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    raw = _bytes(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in kinds:
        raise DataError(f"{path.name} is not an IDX file")
    axes = raw[3]
    shape = struct.unpack(f">{axes}I", raw[4 : 4 + 4 * axes]) if len(raw) >= 4 + 4 * axes else ()
    kind = np.dtype(kinds[raw[2]])
    if not shape or len(raw) != 4 + 4 * axes + kind.itemsize * int(np.prod(shape)):
        raise DataError(f"{path.name} is cut short, or longer than its header says")
    return np.frombuffer(raw, kind, offset=4 + 4 * axes).reshape(shape)
