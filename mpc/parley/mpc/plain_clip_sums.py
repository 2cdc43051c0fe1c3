"""The sums of `clip_sums` in NumPy, for a machine that nothing was compiled for: the same integers, more slowly.

Each function is `native/clip.c`'s of that name, line by line: in the same types and the same order of additions, with
denormals counted as zero. Here as there, a record's bound rests on `encode` and on the mask in `clip_sums` alone.
"""

import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
T = TypeVar("T", np.float32, np.float64)

LANES = 16
BLOCK = 1 << 15
"""Coordinates whose squares, of at most 2^44 each, one word adds up."""
ENTRIES = 1 << 18
"""Of rows that are taken together."""
MARGIN = 1 - 2.0**-21
LEAST_ROOM = 16
BEYOND = 1 << 45
"""More than any limit's square."""


class Weights(NamedTuple):
    """Over the lattice's step, each with its clip norm."""

    gradient: float
    gradient_norm: float
    difference: float
    difference_norm: float


def flushed(x: NDArray[T]) -> NDArray[T]:
    """Denormals as zero. The others that C's loops could meet are rounded to zero in the end, flushed or not."""
    return flushed_below(x, np.finfo(x.dtype).tiny)


def flushed_below(x: NDArray[T], least: np.floating[Any]) -> NDArray[T]:
    return np.where(np.abs(x) < least, x.dtype.type(0), x)


def length(rows: Singles) -> Doubles:
    """|row| of each: sixteen sums side by side, added at the end."""
    count, d = rows.shape
    sums = np.zeros((count, 1, LANES))
    for start in range(0, d, BLOCK):
        some = rows[:, start : start + BLOCK]
        wide = np.zeros((count, -(-some.shape[1] // LANES) * LANES))
        wide[:, : some.shape[1]] = some
        wide *= wide
        sums = np.add.accumulate(np.concatenate([sums, wide.reshape(count, -1, LANES)], axis=1), axis=1)[:, -1:]
    return np.sqrt(np.add.accumulate(sums[:, 0], axis=1)[:, -1])


def weigh(
    gradient: Doubles, difference: Doubles | None, d: int, weights: Weights, limit: int
) -> tuple[Singles, Singles, bool]:
    """How rows of these lengths are weighted, clipped and short enough for what rounding may add; and how rounded."""
    one = np.float64(1)
    first = flushed(weights.gradient_norm / gradient)
    second = flushed(weights.difference_norm / (np.zeros_like(gradient) if difference is None else difference))
    a = flushed(weights.gradient * np.where(first < 1, first, one))
    b = flushed(weights.difference * np.where(second < 1, second, one))
    long = flushed(a * gradient)
    if difference is not None:
        long = long + flushed(b * difference)
    rounding = math.sqrt(d) / 2
    nearest = rounding * LEAST_ROOM <= limit
    room = limit * MARGIN - (rounding if nearest else 0)
    factor = np.where(long > room, flushed(room / long), one)
    return as_float(a * factor), as_float(b * factor), nearest


def as_float(x: Doubles) -> Singles:
    """The nearest float32, none of them infinite and none denormal."""
    kind = np.finfo(np.float32)
    return np.where(x < kind.tiny, 0, np.where(x > kind.max, kind.max, x)).astype(np.float32)


def _product(weights: Singles, rows: Singles) -> Singles:
    """Each row times its weight. What would be denormal is zero: it is rounded to that in the end, and takes long on
    some processors. A double holds the product of two floats exactly, so it is rounded once."""
    return flushed_below(weights.astype(np.float64)[:, None] * rows, np.finfo(np.float32).tiny).astype(np.float32)


def encode(
    fresh: Singles, difference: Singles | None, a: Singles, b: Singles, nearest: bool, limit: int
) -> tuple[NDArray[np.int32], Integers]:
    """Rows of integers a·g + b·(g − g′), and the sums of squares of each row's blocks of coordinates.

    Entries are cut at `limit` + 1, and what is not a number becomes −(limit + 1): such a row is too long for certain.
    """
    x = _product(a, fresh)
    if difference is not None:
        x += _product(b, difference)
    top = np.float32(limit + 1)
    x = np.where(x > -top, x, -top)
    x = np.where(x < top, x, top)
    whole = (np.rint(x) if nearest else np.trunc(x)).astype(np.int32)
    squares = whole.astype(np.int64)
    squares *= squares
    return whole, np.add.reduceat(squares, np.arange(0, fresh.shape[1], BLOCK), axis=1)


def _prepared(fresh: Singles, before: Singles | None) -> tuple[Singles, Singles | None]:
    fresh = flushed(fresh)
    return fresh, None if before is None else flushed(fresh - flushed(before))


def clip_sums(
    fresh: Singles, before: Singles | None, present: Flags, weights: Weights, limit: int, total: Integers
) -> None:
    """total[d] += the terms of the present rows."""
    rows, d = fresh.shape
    together = max(1, ENTRIES // d)
    for start in range(0, rows, together):
        some = slice(start, start + together)
        with np.errstate(all="ignore"):
            g, difference = _prepared(fresh[some], None if before is None else before[some])
            lengths = length(g), None if difference is None else length(difference)
            a, b, nearest = weigh(*lengths, d, weights, limit)
            whole, squares = encode(g, difference, a, b, nearest, limit)
        short = np.minimum(squares, BEYOND).sum(axis=1) <= limit * limit
        total += (whole * (present[some] & short)[:, None]).sum(axis=0, dtype=np.int64)


def encode_row(
    fresh: Singles, before: Singles | None, weights: tuple[float, float], nearest: bool, limit: int
) -> tuple[NDArray[np.int32], int]:
    """One row's integers under any weights, and the sum of their squares."""
    a, b = (np.array([each], np.float32) for each in weights)
    with np.errstate(all="ignore"):
        g, difference = _prepared(fresh[None], None if before is None else before[None])
        whole, squares = encode(g, difference, a, b, nearest, limit)
    return whole[0], sum(int(each) for each in squares[0])
