"""The newest public models that a run has asked about, kept for this party's own operator: NODE/state/newest.

They are public, and the same for all parties; with them `parley page` can say what its own records look like there, in
a process of its own. The file is a convenience: it is not forced to the disk, is written at most every few seconds, and
one that cannot be written changes nothing of a run. How long it takes follows from public lengths alone.
"""

import contextlib
import os
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parley.learning.contributor import Query
from parley.privacy.durable import PRIVATE

LEAST_SECONDS = 5.0
"""Between two files of one run."""
MOST_RUNS = 8
MOST_BYTES = 1 << 28


@dataclass
class Newest:
    """Of one run in this process."""

    path: Path
    held: Query | None = None
    """That is not written yet."""
    written: float = -LEAST_SECONDS

    def note(self, query: Query) -> None:
        self.held = query
        if time.monotonic() >= self.written + LEAST_SECONDS:
            self.write()

    def write(self) -> None:
        """What is not on the disk yet."""
        if self.held is None or sum(point.nbytes for point in self.held.points) > MOST_BYTES:
            return
        query, self.held, self.written = self.held, None, time.monotonic()
        fresh = self.path.with_name(f".{self.path.name}.new")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "wb") as file:
                points: dict[str, Any] = {f"point_{place}": point for place, point in enumerate(query.points)}
                np.savez(file, round=query.round_index, kind=query.kind, scale=query.scale, **points)
            os.replace(fresh, self.path)
            _keep_few(self.path.parent)


def _keep_few(folder: Path) -> None:
    """The oldest go: each may have many megabytes."""
    held = sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
    for path in held[:-MOST_RUNS]:
        path.unlink()


def newest_at(path: Path) -> Query | None:
    """What was noted last; None where no round was asked, or the file is not what was written."""
    try:
        with np.load(path, allow_pickle=False) as found:
            points = tuple(
                np.asarray(found[name], np.float64)
                for name in sorted(found.files, key=_place)
                if name.startswith("point")
            )
            return Query(int(found["round"]), points, str(found["kind"]), float(found["scale"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _place(name: str) -> int:
    number = name.rpartition("_")[2]
    return int(number) if number.isdigit() else -1
