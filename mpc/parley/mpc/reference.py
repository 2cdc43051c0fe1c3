"""One lane in the clear: what the protocol computes on shares, from the same tables and the same random choices.

Used by tests and known-answer vectors; a specification that can be run, written for the reader.
"""

from dataclasses import dataclass

import numpy as np

from parley.mpc.tables import Tables


@dataclass(frozen=True)
class Lane:
    """A lane's random choices, all uniform and independent."""

    index: int
    """Of level 0's row, 11 bits."""
    tail_index: int
    level: int
    """Of the tail, from 0: geometric with ratio 1/16, capped at the last."""
    position: int
    """m"""
    height: int
    """U"""
    negative: bool


@dataclass(frozen=True)
class Outcome:
    """What comes of it."""

    threshold: int
    ratio: int
    accepted: bool
    sample: int
    """+-(2U + 1) W, a standard normal times 2^scale_bits if accepted."""


def rises(slope: int, position: int, position_bits: int) -> int:
    """sum_k m_k floor(slope / 2^(position_bits - k))"""
    return sum((slope >> (position_bits - k)) * (position >> k & 1) for k in range(position_bits))


def sample(tables: Tables, lane: Lane) -> Outcome:
    """The ratio of uniforms, by integers."""
    row = tables.head[lane.index]
    if _field(tables, row, "flag"):
        row = tables.tail[lane.level][lane.tail_index]
    bits = tables.format.position_bits
    threshold = _field(tables, row, "threshold") + rises(_field(tables, row, "threshold_slope"), lane.position, bits)
    ratio = _field(tables, row, "ratio") + rises(_field(tables, row, "ratio_slope"), lane.position, bits)
    value = (2 * lane.height + 1) * ratio
    return Outcome(threshold, ratio, lane.height < threshold, -value if lane.negative else value)


def _field(tables: Tables, row: np.ndarray[tuple[int], np.dtype[np.uint8]], name: str) -> int:
    return int(tables.field(row, name))
