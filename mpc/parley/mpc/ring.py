"""Vectors over Z_2^64: encoding in noise units, sharing, and the release of a noised sum.

One lattice for data and noise: everything is counted in steps of unit / 2^fraction_bits, the unit being the standard
deviation of one sample of the law, of which the noise has one or more (parley.mpc.parts). A release is then G + X
rounded on the data's own lattice, which is a post-processing of the Gaussian mechanism; noise on a coarser lattice than
the data's would publish the remainder (noise-protocol.md).

A sample of the pool is an integer of scale 2^scale_bits, finer by k = scale_bits - fraction_bits bits. Each server
drops the k low bits of its share, server 0 rounding down and server 1 up: the sum is ceil((X - r) / 2^k), r = server
0's dropped bits, plus a multiple of 2^(64 - k) where the shares wrapped around. So shares are reduced modulo 2^(64 - k)
before they leave a server, and the sum is lifted to the centre of that range: no wrap is left, whatever the shares
were.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError, RangeError
from parley.mpc.packing import BLOCK_WORDS
from parley.mpc.parts import JOINT, NoiseParts
from parley.mpc.randomness import Csprng

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST_LIMIT = 1 << 26
"""Lattice steps of one record's term, so that their square is exact in float64."""
LARGEST_NOISE = 16
"""Units: W < 16 in both presets, so no sample can be larger."""


@dataclass(frozen=True)
class Lattice:
    """The common lattice of a round's data and noise."""

    sigma: float
    """Standard deviation of the noise on the sum that a claim may count, in the data's unit."""
    fraction_bits: int = 16
    """The lattice's step is unit / 2^fraction_bits."""
    scale_bits: int = 41
    """Of the sampler's preset (parley.mpc.tables.Format.scale_bits)."""
    parts: NoiseParts = JOINT

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and math.isfinite(self.sigma)):
            raise ConfigurationError(f"sigma is {self.sigma}: noise needs a positive standard deviation")
        if not 1 <= self.fraction_bits <= min(24, self.scale_bits - 1):
            raise ConfigurationError(f"fraction_bits is {self.fraction_bits}: use 1 to {min(24, self.scale_bits - 1)}")

    @property
    def unit(self) -> float:
        """Deviation of one sample, such that all that is counted is at least sigma: rounded up, for a claim is about
        the real quotient.
        """
        if self.parts.counted == 1:
            return self.sigma
        return math.nextafter(math.nextafter(self.sigma / math.sqrt(self.parts.counted), math.inf), math.inf)

    @property
    def step(self) -> float:
        return math.ldexp(self.unit, -self.fraction_bits)

    @property
    def largest_noise(self) -> int:
        """In lattice steps, all parts of it."""
        return self.parts.largest(LARGEST_NOISE << self.fraction_bits)

    @property
    def dropped_bits(self) -> int:
        return self.scale_bits - self.fraction_bits

    @property
    def opening_bits(self) -> int:
        """Shares leave a server modulo 2^opening_bits."""
        return 64 - self.dropped_bits

    def largest_sum(self, contributions: int, clip: float) -> int:
        """In lattice steps, noise included: what at most `contributions` records of norm `clip` can add up to."""
        if contributions < 1 or not (clip >= 0 and math.isfinite(clip)):
            raise ConfigurationError("a range check needs at least one contribution and a finite clip norm")
        return contributions * math.ceil(clip / self.step) + self.largest_noise

    def check_range(self, contributions: int, clip: float) -> None:
        """Refuse at start-up what could ever leave the range."""
        largest = self.largest_sum(contributions, clip)
        if largest >= 1 << (self.opening_bits - 1):
            raise RangeError(
                f"{contributions:,} contributions of norm {clip:g} with noise of {self.sigma:g} need "
                f"{largest.bit_length() + 1} bits, the opened sum has {self.opening_bits}: use fewer fraction bits "
                f"({self.fraction_bits} now), a smaller batch or clip, or more noise"
            )

    def encode(self, vector: Floats) -> Integers:
        """Towards zero, coordinate by coordinate: never longer than `vector`. One record, or any exact sum's parts."""
        if not np.isfinite(vector).all():
            raise RangeError("a vector to encode has entries that are not finite")
        scaled = np.trunc(np.asarray(vector, np.float64) / self.step)
        if scaled.size and np.abs(scaled).max() >= 2.0**53:
            raise RangeError(
                "a vector to encode is beyond 2^53 lattice steps: its clip norm or fraction_bits is too large"
            )
        return scaled.astype(np.int64)

    def steps_within(self, length: float) -> int:
        """How many steps are no longer than `length`, exactly: a rounded quotient may be one too many."""
        return math.floor(Fraction(length) / Fraction(self.step))

    def encode_records(self, records: Floats, limit: int) -> Integers:
        """Each row encoded so that its integer norm never exceeds `limit` steps, exactly; rows that are not finite
        become zero.

        Clip, round towards zero, then check in integers; what rounding in floating point left too long is shortened.
        The same work for every row, whether it is long or not.
        """
        if not 0 < limit < LARGEST_LIMIT:
            raise RangeError(f"a record's clip norm is {limit:,} lattice steps: 1 to 2^26, change fraction_bits")
        rows = np.where(np.isfinite(records).all(axis=1, keepdims=True), records, 0.0)
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        unit = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
        length = np.sqrt((unit**2).sum(axis=1, keepdims=True))  # of the row over its largest entry: 1 or more
        with np.errstate(over="ignore"):  # beyond the limit, like any number that is
            steps = np.minimum(largest / self.step, limit / np.maximum(length, 1.0))
        encoded = np.trunc(np.clip(unit * steps, -limit, limit))
        long = np.sqrt(np.maximum(_squares(encoded), limit * limit))
        shrink = np.where(long > limit, limit / long * (1 - 2.0**-30), 1.0)
        encoded = np.trunc(encoded * shrink[:, None])
        return np.where(_squares(encoded)[:, None] > float(limit * limit), 0.0, encoded).astype(np.int64)

    def decode(self, integers: Integers) -> Floats:
        """Lattice steps back to the data's unit."""
        return integers.astype(np.float64) * self.step

    def round_share(self, role: int, samples: Words) -> Words:
        """This server's share of the samples on the data's lattice."""
        k = np.uint64(self.dropped_bits)
        return samples >> k if role == 0 else np.uint64(0) - ((np.uint64(0) - samples) >> k)

    def release_share(self, role: int, total: Words, samples: Words) -> Words:
        """What one server sends of a noised sum: its share of the data's sum plus noise, reduced."""
        if total.shape != samples.shape:
            raise ValueError("as many noise samples as coordinates")
        return (total + self.round_share(role, samples)) & np.uint64((1 << self.opening_bits) - 1)

    def open(self, share_a: Words, share_b: Words) -> Integers:
        """The noised sum, in lattice steps, from both servers' release shares."""
        return signed(share_a + share_b, self.opening_bits)


def _squares(rows: Floats) -> Floats:
    """Squared norms: exact below 2^53, and never below it when they are not."""
    return np.asarray((rows**2).sum(axis=1))


def signed(total: Words, bits: int) -> Integers:
    """Modulo 2^bits, lifted to the centre of that range."""
    return (total << np.uint64(64 - bits)).view(np.int64) >> (64 - bits)


def share(values: Integers, seed: bytes) -> Words:
    """Server A's share of `values`; server B's is `expand(seed, len(values))`. A seed is used once, for one upload."""
    mask = expand(seed, len(values))
    return np.subtract(values.astype(np.int64, copy=False).view(np.uint64), mask, out=mask)


def expand(seed: bytes, count: int) -> Words:
    """Server B's share, from its 32 bytes."""
    return Csprng(seed).words(count)


def add_expanded(total: Words, seed: bytes) -> None:
    """The same, added to `total` piece by piece: a sum over many parties takes the memory of one vector."""
    stream = Csprng(seed)
    for start in range(0, len(total), BLOCK_WORDS):
        part = total[start : start + BLOCK_WORDS]
        part += stream.words(len(part))
