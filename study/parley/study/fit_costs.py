"""What all fits of this process together cost each record: for one machine and one person, who sees everything.

A fit is charged before it begins, to every record that it is given. A record is known by the values of its features,
as a digest under a key that this process draws and never shows, so that cross-validation, whose fits share most of
their records, adds up. ε and δ add up (basic composition, as in the ledger), which holds however later fits were chosen
from the results of earlier ones. Of records with equal values the most that any of them was in is counted.

What it cannot know: other processes, and records that were changed in between (scaled, or with other columns).
"""

import hashlib
import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Total:
    """Of all fits of one set of records, by basic composition: an upper bound."""

    fits: int = 0
    epsilon: float = 0.0
    delta: float = 0.0


NOTHING = Total()


class Spending:
    """Totals by record."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
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


def _plus(total: Total, epsilon: float, delta: float, fits: int) -> Total:
    return Total(total.fits + fits, total.epsilon + epsilon, min(1.0, total.delta + delta))


SPENDING = Spending()
"""This process's."""


def rows_of(columns: Sequence[Sequence[Any] | NDArray[Any]], count: int) -> Iterable[bytes]:
    """One byte string for each record; the same for numbers in a frame and in a matrix."""
    words = np.empty((count, len(columns)), np.uint64)
    for index, column in enumerate(columns):
        words[:, index] = _words(column)
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
    values = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and one zero
    return values.view(np.uint64)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        digest = hashlib.blake2b(str(cell).encode(errors="surrogatepass"), digest_size=6).digest()
        # Of 48 bits, so that it is a number that no cell is likely to be.
        return float(int.from_bytes(digest)) + 0.5
