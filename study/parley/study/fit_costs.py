"""What all fits of this process together cost each record: for one machine and one person, who sees everything.

A fit is charged before it begins, to every record that it is given. A record is known by the values of its features,
as a digest under a key that this process draws and never shows, so that cross-validation, whose fits share most of
their records, adds up. ε and δ add up (basic composition, as in the ledger), which holds however later fits were chosen
from the results of earlier ones. Of records with equal values the most that any of them was in is counted. The order
of columns, numbers of single or double precision, and how a file or a frame writes an empty cell make no difference.

What it cannot know: other processes, and records that were changed in between (scaled, or with other columns). A result
that is carried from one process to another carries what its process had counted.
"""

import hashlib
import math
import os
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.cells import emptiness
from parley.learning.holding import CSV

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Total:
    """Of all fits of one set of records, by basic composition: an upper bound."""

    fits: int = 0
    epsilon: float = 0.0
    delta: float = 0.0


NOTHING = Total()
Past = Mapping[tuple[bytes, int], Total]
"""What each process that a result came through had counted; nothing for one that never left."""
EMPTY = emptiness(CSV.missing)


class Spending:
    """Totals by record."""

    def __init__(self) -> None:
        self._key, self._name = secrets.token_bytes(32), secrets.token_bytes(16)
        self._known: dict[bytes, Total] = {}
        self._everything = NOTHING
        self._lock = threading.Lock()

    def digests(self, rows: Iterable[bytes]) -> tuple[bytes, ...]:
        """Of each different row once, under this process's key."""
        return tuple({hashlib.blake2b(row, key=self._key, digest_size=16).digest() for row in rows})

    def charge(self, records: Sequence[bytes], epsilon: float, delta: float, fits: int = 1) -> None:
        """A fit of all of these, or several that were fixed beforehand and cost this together."""
        grown: dict[Total, Total] = {}
        with self._lock:
            self._everything = _plus(self._everything, epsilon, delta, fits)
            for record in records:
                before = self._known.get(record, NOTHING)
                if before not in grown:
                    grown[before] = _plus(before, epsilon, delta, fits)
                self._known[record] = grown[before]

    def worst(self, records: Iterable[bytes]) -> Total:
        """The most that any of these was exposed to, in each figure."""
        with self._lock:
            found = {self._known.get(record, NOTHING) for record in records} or {NOTHING}
        return Total(*(max(getattr(each, name) for each in found) for name in ("fits", "epsilon", "delta")))

    @property
    def everything(self) -> Total:
        """All fits, whatever their records: no record decides it, so it may be told to others."""
        return self._everything

    def past(self, past: Past) -> Past:
        """What a result takes along that leaves this process."""
        return {**past, (self._name, os.getpid()): self._everything}

    def with_past(self, past: Past) -> Total:
        """All fits of this process and of those that a result came through: an upper bound, for a fork counts anew."""
        here = (self._name, os.getpid())
        return sum_of([self._everything, *(total for process, total in past.items() if process != here)])


def sum_of(totals: Iterable[Total]) -> Total:
    """By basic composition."""
    found = NOTHING
    for each in totals:
        found = _plus(found, each.epsilon, each.delta, each.fits)
    return found


def _plus(total: Total, epsilon: float, delta: float, fits: int) -> Total:
    return Total(total.fits + fits, total.epsilon + epsilon, min(1.0, total.delta + delta))


SPENDING = Spending()
"""This process's."""


def rows_of(columns: Sequence[Sequence[Any] | NDArray[Any]], count: int) -> Iterable[bytes]:
    """One byte string for each record; the same for a frame and a matrix, and for any order of the columns."""
    words = np.empty((count, len(columns)), np.uint64)
    for index, column in enumerate(columns):
        words[:, index] = _words(column)
    words.sort(axis=1)
    return (row.tobytes() for row in words)


def _words(column: Sequence[Any] | NDArray[Any]) -> Words:
    """A cell's value in 64 bits: a number's own, or a digest of a text."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        values = column.astype(np.float64)
    else:
        cells: dict[Any, float] = {}
        values = np.empty(len(column))
        for row, cell in enumerate(column):
            known = cells.get(cell)
            if known is None:
                known = cells[cell] = _number(cell)
            values[row] = known
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32).astype(np.float64)
    values = np.where(values == np.floor(values), values, single)  # ids stay apart
    values = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and one zero
    return values.view(np.uint64)


def _number(cell: Any) -> float:
    if EMPTY(cell):
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        digest = hashlib.blake2b(str(cell).encode(errors="surrogatepass"), digest_size=6).digest()
        # Of 48 bits, so that it is a number that no cell is likely to be.
        return float(int.from_bytes(digest)) + 0.5
