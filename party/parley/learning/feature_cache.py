"""Features on disk while a run lasts: computed once, though the process be started again.

They tell as much as the records, and are kept as those are: mode 600, in a folder that nobody else may enter, and gone
with the run. A file is named by all that its rows follow from: the columns as they were encoded (so after whatever was
left out), the transforms, and the version of this code. One that was altered or cut short is computed again.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.features import VERSION
from parley.learning.rows import DenseRows, Rows, SparseRows, integer_type
from parley.learning.schema import Schema
from parley.learning.transforms import transforms_as_json
from parley.privacy.canonical import canonical_json

ENDING = ".features"
DIGEST_BYTES = 32
PIECE = 1 << 24
LEAST_FREE = 2
"""Times what is written, or it is not."""


@dataclass(frozen=True)
class FeatureCache:
    """Of one run, in a folder of its own."""

    folder: Path

    def rows(self, columns: Rows, schema: Schema, make: Callable[[], DenseRows]) -> DenseRows:
        """Those that are kept, or what `make` makes, which is kept if the disk lets it."""
        path = self.folder / f"{_key(columns, schema)}{ENDING}"
        shape, kind = (len(columns), schema.dimension), integer_type(schema.integer_reach)
        values = _read(path, shape, kind)
        if values is None:
            values = self._of_another_run(path, shape, kind)
        if values is not None:
            return DenseRows.of(values, schema.bits, schema.integer_reach)
        found = make()
        with contextlib.suppress(OSError):  # a full disk: they are computed again at the next start
            self._write(path, np.ascontiguousarray(found.values))
        return found

    def erase(self) -> None:
        """With the run."""
        erase(self.folder)

    def _of_another_run(self, path: Path, shape: tuple[int, int], kind: np.dtype[Any]) -> NDArray[Any] | None:
        """One file, that goes with the last run which needs it."""
        for other in self.folder.parent.glob(f"*/{path.name}"):
            values = _read(other, shape, kind)
            if values is not None:
                with contextlib.suppress(OSError):
                    self._make_folder()
                    os.link(other, path)
                return values
        return None

    def _make_folder(self) -> None:
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def _write(self, path: Path, values: NDArray[Any]) -> None:
        """Whole or not at all; no need to be on the disk when it returns. Its last space is the ledger's beside it."""
        self._make_folder()
        if shutil.disk_usage(self.folder).free < LEAST_FREE * values.nbytes:
            raise OSError(errno.ENOSPC, "too little is free beside it")
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                raw = values.reshape(-1).view(np.uint8).data
                digest = hashlib.sha256()
                for start in range(0, len(raw), PIECE):
                    digest.update(raw[start : start + PIECE])
                    file.write(raw[start : start + PIECE])
                file.write(digest.digest())
            os.replace(fresh, path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise


def erase(folder: Path) -> None:
    """A run's features, and nothing else that may lie there."""
    for path in [*folder.glob(f"*{ENDING}"), *folder.glob(f".*{ENDING}.*")]:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or somebody put something else into it
        folder.rmdir()


def _key(columns: Rows, schema: Schema) -> str:
    """All that the rows follow from."""
    told = {
        "version": VERSION,
        "transform": transforms_as_json(schema.transform),
        "bits": schema.bits,
        "intercept": schema.intercept,
        "bits before": columns.bits,
        "columns": columns.dimension,
    }
    found = hashlib.sha256(canonical_json(told).encode("ascii") + b"\n")
    if isinstance(columns, SparseRows):
        _update(found, columns.columns)
        _update(found, columns.values)
    else:
        assert isinstance(columns, DenseRows)
        _update(found, columns.values)
    return found.hexdigest()


def _update(digest: Any, values: NDArray[Any]) -> None:
    digest.update(f"{values.dtype.str} {values.shape}\n".encode())
    if values.size:
        digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def _read(path: Path, shape: tuple[int, int], kind: np.dtype[Any]) -> NDArray[Any] | None:
    """None where there is none, or not what was written."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            return _body(file, shape, kind)
    except OSError:
        return None


def _body(file: IO[bytes], shape: tuple[int, int], kind: np.dtype[Any]) -> NDArray[Any] | None:
    length = shape[0] * shape[1] * kind.itemsize
    if os.fstat(file.fileno()).st_size != length + DIGEST_BYTES:
        return None
    values = np.empty(shape, kind)
    raw = values.reshape(-1).view(np.uint8).data
    read = 0
    while read < length and (count := file.readinto(raw[read:])):  # type: ignore[attr-defined]
        read += count
    right = read == length and hashlib.sha256(raw).digest() == file.read(DIGEST_BYTES)
    return values if right else None
