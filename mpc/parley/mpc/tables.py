"""Public tables of the sampler: a cover of the region of the ratio of uniforms by boxes.

Kinderman and Monahan's region is C = {0 < u <= 1, |v| <= h(u)}, h(u) = 2 u sqrt(-ln u): for (u, v) uniform in C, v/u is
a standard normal. A table row describes one box [lo, hi] x [0, H]; all boxes of a level have the same area, so that a
uniform secret index and uniform positions inside give a point uniform in the union of the boxes. With m uniform in
[0, M) and U uniform in [0, 2^threshold_bits), both secret:

    W(m) = slope-and-intercept form of H / u,      |x| = (2U + 1) W(m) / 2^scale_bits
    T(m) = slope-and-intercept form of h(u) / H,   accepted iff U < T(m), that is |v| <= h(u), that is x^2 <= -4 ln u

where both forms are f(m) = base + sum over the bits k of m of floor(slope / 2^(slope_shift - k)): exact integer
functions that the protocol computes without any rounding of its own. Level 0 is found by an 11-bit index; its flagged
rows hand over to level 1, which with probability 1/16 hands over to level 2, and so on into the tail (and into the
tip at u = 1).

Covers: `strips`, boxes that hug C (acceptance 0.994); `rectangle`, the textbook's bounding rectangle cut into strips
(acceptance 0.7306). The rows are data, built by table_builder.py in arbitrary precision; both servers compare digests.
"""

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError
from parley.mpc.kernels import Bytes, Words, as_matrices

Cover = Literal["strips", "rectangle"]
Precision = Literal["standard", "high"]

INDEX_BITS = 11
"""Of level 0: 9 bits by a one-hot vector, 2 by a multiplexer."""
MULTIPLEXED_BITS = 2
GO_ON = 16
"""One sample in so many moves on from a tail level to the next."""


@dataclass(frozen=True)
class Format:
    """Widths of a preset's integers."""

    threshold_bits: int
    """Of U and of T(m)."""
    threshold_slope_bits: int
    """Of the slope of T, two's complement."""
    ratio_fraction_bits: int
    """Fraction bits of W; it has four integer bits (W < 16)."""
    ratio_slope_bits: int
    position_bits: int
    """Of m, the position inside a box."""
    tail_levels: int
    tail_bits: int
    """Of the index into a tail level."""

    @property
    def ratio_bits(self) -> int:
        """Of W's intercept."""
        return self.ratio_fraction_bits + 4

    @property
    def scale_bits(self) -> int:
        """A standard normal is an integer of scale 2^scale_bits."""
        return self.threshold_bits + 1 + self.ratio_fraction_bits

    @property
    def row_bits(self) -> int:
        """Threshold, its slope, ratio, its slope, and the flag that hands over to the tail."""
        return self.threshold_bits + self.threshold_slope_bits + self.ratio_bits + self.ratio_slope_bits + 1

    @property
    def row_bytes(self) -> int:
        return (self.row_bits + 7) // 8

    def fields(self) -> dict[str, tuple[int, int]]:
        """First bit and number of bits of each field of a row."""
        widths = {
            "threshold": self.threshold_bits,
            "threshold_slope": self.threshold_slope_bits,
            "ratio": self.ratio_bits,
            "ratio_slope": self.ratio_slope_bits,
            "flag": 1,
        }
        starts = np.cumsum([0, *widths.values()])
        return {name: (int(start), width) for (name, width), start in zip(widths.items(), starts, strict=False)}


FORMATS: dict[Precision, Format] = {
    "standard": Format(
        threshold_bits=20,
        threshold_slope_bits=18,
        ratio_fraction_bits=20,
        ratio_slope_bits=19,
        position_bits=7,
        tail_levels=12,
        tail_bits=9,
    ),
    "high": Format(
        threshold_bits=24,
        threshold_slope_bits=22,
        ratio_fraction_bits=22,
        ratio_slope_bits=21,
        position_bits=8,
        tail_levels=14,
        tail_bits=10,
    ),
}


@dataclass(frozen=True)
class Tables:
    """One cover at one precision."""

    cover: Cover
    precision: Precision
    format: Format
    head: NDArray[np.uint8]
    """uint8[2048, 16]: level 0, row = index, little-endian bit fields."""
    tail: NDArray[np.uint8]
    """uint8[tail_levels, 2^tail_bits, 16]."""

    @property
    def digest(self) -> bytes:
        """SHA-256 over the rows and the format: what the two servers compare before they compute."""
        text = f"parley sampler tables v1 {self.cover} {self.precision} {self.format}"
        return hashlib.sha256(text.encode() + self.head.tobytes() + self.tail.tobytes()).digest()

    @cached_property
    def lookups(self) -> tuple[tuple[Bytes, Words], tuple[Bytes, Words]]:
        """Level 0 in quarters and the tail, each as rows and as matrices: what kernels look up in. Made once."""
        quarters = np.ascontiguousarray(self.head.reshape(1 << MULTIPLEXED_BITS, -1, 16))
        return (quarters, as_matrices(quarters)), (self.tail, as_matrices(self.tail))

    def field(self, rows: NDArray[np.uint8], name: str) -> NDArray[np.int64]:
        """One field of `rows` (uint8[..., 16]) as integers, slopes of the threshold with their sign."""
        start, width = self.format.fields()[name]
        bits = np.unpackbits(rows, axis=-1, bitorder="little")[..., start : start + width].astype(np.int64)
        values: NDArray[np.int64] = bits @ (np.int64(1) << np.arange(width, dtype=np.int64))
        if name == "threshold_slope":
            values = values - ((values >> (width - 1)) << width)
        return values


def rise(slope: NDArray[np.int64], position_bits: int) -> NDArray[np.int64]:
    """sum_k m_k floor(slope / 2^(position_bits - k)) for every m: int64[..., 2^position_bits]."""
    positions = np.arange(1 << position_bits)
    total = np.zeros((*slope.shape, len(positions)), np.int64)
    for k in range(position_bits):
        total += (slope >> (position_bits - k))[..., None] * (positions >> k & 1)
    return total


def check_precision(cover: str, precision: str) -> tuple[Cover, Precision]:
    """Names from outside, as types; an unknown one is refused with the list of those there are."""
    if cover not in get_args(Cover):
        raise ConfigurationError(f"unknown cover {cover!r}: use one of {', '.join(get_args(Cover))}")
    if precision not in get_args(Precision):
        raise ConfigurationError(f"unknown precision {precision!r}: use one of {', '.join(get_args(Precision))}")
    return cover, precision  # type: ignore[return-value]


def file_name(cover: Cover, precision: Precision) -> str:
    """Of the rows, beside this module: head, then tail levels, 16 bytes a row."""
    return f"{cover}-{precision}.bin"


@cache
def load(cover: Cover, precision: Precision) -> Tables:
    """The shipped tables. Their digest is checked against tests/vectors by the suite and against the peer by each
    session.
    """
    form = FORMATS[precision]
    raw = resources.files("parley.mpc").joinpath("data", file_name(cover, precision)).read_bytes()
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 16)
    head, tail = rows[: 1 << INDEX_BITS], rows[1 << INDEX_BITS :]
    return Tables(cover, precision, form, head, tail.reshape(form.tail_levels, 1 << form.tail_bits, 16))


@cache
def by_digest() -> dict[bytes, Tables]:
    """All shipped tables, by what sessions and evidence name them by."""
    every = (load(cover, precision) for cover in get_args(Cover) for precision in get_args(Precision))
    return {tables.digest: tables for tables in every}
