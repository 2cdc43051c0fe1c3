"""Which worker keeps which records, and how long the lists are that each is given: public facts, all of it.

Unit u is with worker u mod W. How many units of a drawn batch fall to one worker is as secret as the batch, so every
list is padded to one length that follows from public numbers and overflows with a probability of at most 2^-64. What
overflows all the same is asked in a second list: the sum is never another one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.records import Records, of_units
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.learning.schema import LARGEST_SQUARED
from parley.privacy.randomness import Randomness, uniform_words
from parley.privacy.sampling import Batch

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Array = NDArray[Any]

OVERFLOW_BITS = 64
SMALLEST_CHUNK, LARGEST_CHUNK = 16, 1024
PARTS = 8
"""A batch makes about so many chunks, where it is long enough: few rows are computed in vain on eight workers."""
NUMBERS_AT_ONCE = 1 << 19
"""In one chunk, no more than `parley.learning.engine` takes at once: it is never cut again."""


@dataclass(frozen=True)
class Asked:
    """One list for every worker, padded: what they are all asked at once."""

    places: Integers
    """int64[workers, length]: of units within a worker's shard; 0 where padded."""
    present: Flags
    """bool[workers, length]"""


def shard(records: Records, worker: int, workers: int) -> Records:
    """The records that this worker keeps, in types and at widths that are those of all."""
    return of_units(records, np.arange(worker, records.units, workers, dtype=np.int64))


def chunk_length(length: int, width: int) -> int:
    """How many units a worker computes on at once: a power of two, the same however many workers there are."""
    wanted = max(SMALLEST_CHUNK, min(LARGEST_CHUNK, length // PARTS))
    room = max(1, NUMBERS_AT_ONCE // max(1, width))
    return 1 << (min(wanted, room).bit_length() - 1)


def list_length(length: int, units: int, workers: int, chunk: int) -> int:
    """Of each worker's list, for a batch of `length` of all `units`: whole chunks.

    Any batch is a uniformly random set of its size, or a part of one, so that a worker's part has tails no heavier than
    a binomial law's (Hoeffding 1963, § 6): P[X ≥ k] ≤ exp(−length·KL(k/length ‖ share)).
    """
    largest = -(-units // workers)
    share, most = largest / units, min(length, largest)
    low, high = min(most, math.ceil(length * share)), most
    while low < high:
        middle = (low + high) // 2
        if length * _divergence((middle + 1) / length, share) >= (OVERFLOW_BITS + math.log2(workers)) * math.log(2):
            high = middle
        else:
            low = middle + 1
    return -(-low // chunk) * chunk


def _divergence(p: float, q: float) -> float:
    """KL of two coins, in nats; 0 where p is not above q."""
    if p <= q:
        return 0.0
    if p >= 1:
        return -math.log(q) if q < 1 else 0.0
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def lists(batch: Batch, workers: int, length: int, source: Randomness) -> Iterator[Asked]:
    """One after another until every present unit was named once; all but never more than one.

    Units stand at places that are drawn: that one is present moves no other (`parley.privacy.sampling`).
    """
    chosen = batch.indices[batch.present]
    owners = chosen % workers
    parts = [chosen[owners == worker] // workers for worker in range(workers)]
    for start in range(0, max(1, *(len(part) for part in parts)), length):
        places, present = np.zeros((workers, length), np.int64), np.zeros((workers, length), np.bool_)
        for worker, part in enumerate(parts):
            here = part[start : start + length]
            drawn = np.argsort(uniform_words(source, length), kind="stable")[: len(here)]
            places[worker, drawn], present[worker, drawn] = here, True
        yield Asked(places, present)


def as_arrays(records: Records) -> tuple[dict[str, Any], list[Array]]:
    """To be sent: nothing is pickled."""
    rows = records.rows
    header: dict[str, Any] = {"unit": records.unit_column, "bound": records.row_bound, "bits": rows.bits}
    arrays: list[Array]
    if isinstance(rows, SparseRows):
        header["dimension"] = rows.dimension
        arrays = [rows.columns, rows.values]
    else:
        assert isinstance(rows, DenseRows)
        arrays = [rows.values]
    return header, [*arrays, records.targets, records.members]


def from_arrays(header: dict[str, Any], arrays: list[Array]) -> Records:
    """The same records; norms are computed again, and are integers."""
    *held, targets, members = arrays
    rows: Rows
    if "dimension" in header:
        rows = SparseRows.of(held[0], held[1], header["bits"], header["dimension"])
    else:
        rows = DenseRows.of(held[0], header["bits"])
    return Records(rows, targets, header["unit"], members, {}, header["bound"])


def made_up(records: Records, units: int) -> Records:
    """As many public units in the shapes and types of these records: what workers are measured and compared on.

    Numbers follow a fixed rule, a target is 0 or 1; of the records themselves nothing but shapes is read.
    """
    per_unit = records.records_per_unit
    count = units * per_unit
    places = np.arange(count)[:, None]
    rows: Rows
    if isinstance(records.rows, SparseRows):
        width = records.rows.columns.shape[1]
        columns = np.broadcast_to(np.arange(width), (count, width))
        values = ((places * 7 + columns * 3) % 5).astype(np.float64) * 2.0 ** (records.rows.bits - 2)
        rows = SparseRows.of(np.ascontiguousarray(columns), np.rint(values), records.rows.bits, records.rows.dimension)
    else:
        assert isinstance(records.rows, DenseRows)
        held, bits = records.rows.values, records.rows.bits
        top = min(
            1 << bits, int(np.iinfo(str(held.dtype)).max), math.isqrt((int(LARGEST_SQUARED) - 1) // held.shape[1])
        )
        numbers = (places * 131 + np.arange(held.shape[1]) * 37) % (top + 1)
        rows = DenseRows.of(numbers.astype(held.dtype), bits)
    members = places.reshape(units, per_unit).astype(np.int64) if records.unit_column else np.zeros((0, 1), np.int64)
    return Records(rows, (np.arange(count) % 2).astype(np.float64), records.unit_column, members)
