"""Bounds that do not suit the records: too narrow, so that many values are cut, or so wide that values lie together.

A spread is a fact about records, and so is a warning: for the eyes of whoever may see the records. Commands of their
operator ask for them, and whoever simulates; a party's long-running process never does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.learning.cells import on_scale
from parley.learning.columns import Date, Number, Target
from parley.learning.known import known_bounds

Floats = NDArray[np.float64]
MOST_CUT = 0.05
"""Of a column's values, before its bounds are called too narrow."""
LEAST_FILLED = 0.05
"""Of the way from low to high, before a column's bounds are called too wide."""


@dataclass(frozen=True)
class Spread:
    """How a column's values lie between its public bounds. A fact about records."""

    values: int
    """Cells that are not empty."""
    cut: int
    filled: float
    """From the least value to the greatest, after cutting, as a share of low to high."""
    bounds: str
    """As the schema has them."""
    logarithm: bool = False


def warnings_of(spreads: Mapping[str, Spread]) -> list[str]:
    """Bounds that do not suit the records, each with what to write instead; for local eyes only.

    What is recommended is never taken from the records: their own extremes or quantiles would leak.
    """
    return [said for name, spread in spreads.items() for said in _warnings(name, spread)]


def _warnings(name: str, spread: Spread) -> Iterator[str]:
    if not spread.values:
        yield f"{name}: every cell is empty: leave the column out, or correct the file"
        return
    if spread.cut > MOST_CUT * spread.values:
        share = spread.cut / spread.values
        yield (
            f"{name}: {spread.bounds} cut {spread.cut:,} of {spread.values:,} values ({share:.0%}): "
            f"{_instead(name, spread, 'wider')}"
        )
    elif spread.filled < LEAST_FILLED:
        yield (
            f"{name}: its values fill {spread.filled:.1%} of {spread.bounds}, so they are hard to tell apart under the "
            f"noise: {_instead(name, spread, 'narrower')}"
        )


def _instead(name: str, spread: Spread, which: str) -> str:
    known = known_bounds(name)
    if known is not None and f"low = {known.low:g}, high = {known.high:g}" != spread.bounds:
        return f"write {known.keys} ({known.source}), or take bounds from a codebook"
    log = ', or try transform = "log1p" if most values are small' * (which == "narrower" and not spread.logarithm)
    return f"take {which} bounds from a codebook or the literature, never from the records{log}"


def spread_of(column: Number | Date | Target, values: Floats, cut: int) -> Spread:
    """Of a column's values, in its own unit and uncut, nan where empty; `cut` of them lie outside."""
    values = values[~np.isnan(values)]
    low, high = (column.low, column.high) if isinstance(column, Target) else column.cut
    logarithm = isinstance(column, Number) and column.transform == "log1p"
    bounds = (
        f"low = {column.low:g}, high = {column.high:g}"
        if not isinstance(column, Date)
        else (f"low = {column.low}, high = {column.high}")
    )
    if not len(values):
        return Spread(0, 0, 0.0, bounds, logarithm)
    ends = np.clip(np.array([values.min(), values.max(), low, high]), low, high)
    if not isinstance(column, Target):
        ends = on_scale(ends, column)
    return Spread(len(values), cut, float((ends[1] - ends[0]) / (ends[3] - ends[2])), bounds, logarithm)
