"""The sampler's law in the clear, vectorised: for research in one process, with nobody to hide the noise from.

Same tables, same integers, same acceptance test as the protocol (mpc/sampler.py; mpc/reference.py is one lane of it),
both servers' dithers, and the release's rounding (mpc/ring.py). What differs is only that one process knows the noise:
nothing here may serve a federation.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpc.errors import ConfigurationError
from mpc.law import DITHER_BITS
from mpc.randomness import Csprng
from mpc.ring import Integers, Lattice
from mpc.tables import INDEX_BITS, Tables, rise

LANES = 8192
GO_ON_BITS = 4
"""A tail level hands over to the next where four random bits are all zero: probability 1/16."""


@dataclass
class ClearSampler:
    """Independent samples of the law, from one stream of random bytes."""

    tables: Tables
    rng: Csprng
    _left: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        # Rows of level 0, then of each tail level one after the other, with T and W at every position m.
        rows = np.concatenate([self.tables.head, self.tables.tail.reshape(-1, self.tables.head.shape[1])])
        bits = self.tables.format.position_bits
        place = {name: self.tables.field(rows, name) for name in self.tables.format.fields()}
        self._thresholds = (place["threshold"][:, None] + rise(place["threshold_slope"], bits)).ravel()
        self._ratios = (place["ratio"][:, None] + rise(place["ratio_slope"], bits)).ravel()
        self._flagged = place["flag"].astype(np.bool_)

    def accepted(self, lanes: int) -> NDArray[np.int64]:
        """±(2U + 1)·W of the accepted among `lanes` lanes, a standard normal times 2^scale_bits, without dither."""
        form = self.tables.format
        words = self.rng.words(3, lanes)
        row = _take(words[0], 0, INDEX_BITS)
        tail_row = _take(words[0], INDEX_BITS, form.tail_bits)
        position = _take(words[0], INDEX_BITS + form.tail_bits, form.position_bits)
        height = _take(words[1], 0, form.threshold_bits)
        negative = _take(words[1], form.threshold_bits, 1).astype(np.bool_)
        level = np.zeros(lanes, np.int64)
        going = np.ones(lanes, np.bool_)
        for step in range(form.tail_levels - 1):
            going &= _take(words[2], GO_ON_BITS * step, GO_ON_BITS) == 0
            level += going
        tail = len(self.tables.head) + (level << form.tail_bits) + tail_row
        cell = (np.where(self._flagged[row], tail, row) << form.position_bits) + position
        kept = height < self._thresholds[cell]
        sample = (2 * height[kept] + 1) * self._ratios[cell[kept]]
        return np.asarray(np.where(negative[kept], -sample, sample), np.int64)

    def samples(self, count: int) -> NDArray[np.int64]:
        """int64[count] at scale 2^scale_bits, with both servers' dithers."""
        while len(self._left) < count:
            fresh = self.accepted(LANES)
            self._left = np.concatenate([self._left, fresh + self._dither(len(fresh)) + self._dither(len(fresh))])
        found, self._left = self._left[:count], self._left[count:]
        return found

    def release(self, lattice: Lattice, count: int) -> Integers:
        """Noise in lattice steps, as it appears in a released sum: rounded up after server 0's dropped bits."""
        if lattice.scale_bits != self.tables.format.scale_bits:
            raise ConfigurationError(
                "the lattice is of another preset than the tables: take scale_bits from the tables"
            )
        k = lattice.dropped_bits
        dropped = (self.rng.words(count) & np.uint64((1 << k) - 1)).astype(np.int64)
        return -((dropped - self.samples(count)) >> k)

    def _dither(self, count: int) -> NDArray[np.int64]:
        """Of one server: two uniforms of width 2^-DITHER_BITS standard deviations, as mpc/sampler.py draws them."""
        width = self.tables.format.scale_bits - DITHER_BITS
        words = (self.rng.words(2, count) >> np.uint64(64 - width)).astype(np.int64)
        return np.asarray(words[0] + words[1] - (1 << width))


def _take(words: NDArray[np.uint64], start: int, bits: int) -> NDArray[np.int64]:
    """Bits start … start + bits − 1 of each word."""
    return (words >> np.uint64(start) & np.uint64((1 << bits) - 1)).astype(np.int64)
