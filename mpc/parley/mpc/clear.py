"""The sampler's law in the clear, vectorised: for what one process may know.

That is a server's own part of the noise (`OwnNoise`), which protects against the other server and all the rest but not
against itself; and research in one process, with nobody to hide the noise from (`ClearSampler.release`). Same tables,
same integers, same acceptance test as the protocol (parley.mpc.sampler; parley.mpc.reference is one lane of it), both
servers' dithers, and the release's rounding (parley.mpc.ring).
"""

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError
from parley.mpc.law import DITHER_BITS
from parley.mpc.randomness import Csprng
from parley.mpc.ring import Integers, Lattice
from parley.mpc.tables import INDEX_BITS, Tables, rise

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
        # T and W have 26 bits at most: half the memory, which a server keeps for good.
        self._thresholds = (place["threshold"][:, None] + rise(place["threshold_slope"], bits)).ravel().astype(np.int32)
        self._ratios = (place["ratio"][:, None] + rise(place["ratio_slope"], bits)).ravel().astype(np.int32)
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
            self._left = np.concatenate([self._left, self._dithered(LANES)])
        found, self._left = self._left[:count], self._left[count:]
        return found

    def fresh(self, count: int) -> NDArray[np.int64]:
        """The same from as few lanes as it takes; what is over is lost. The caller's alone, to erase once used."""
        found = np.zeros(count, np.int64)
        have = 0
        while have < count:
            missing = count - have
            more = self._dithered(min(LANES, missing + missing // 64 + 16))
            taken = min(missing, len(more))
            found[have : have + taken] = more[:taken]
            more[:] = 0
            have += taken
        return found

    def release(self, lattice: Lattice, count: int) -> Integers:
        """Noise in lattice steps, all parts of it, as it appears in a released sum: rounded up after server 0's dropped
        bits.
        """
        if lattice.scale_bits != self.tables.format.scale_bits:
            raise ConfigurationError(
                "the lattice is of another preset than the tables: take scale_bits from the tables"
            )
        k = lattice.dropped_bits
        dropped = (self.rng.words(count) & np.uint64((1 << k) - 1)).astype(np.int64)
        total = self.samples(count) if lattice.parts.joint else np.zeros(count, np.int64)
        if (shift := lattice.parts.shift) is not None:
            total = total + (self.samples(count) >> shift) + (self.samples(count) >> shift)
        return -((dropped - total) >> k)

    def _dithered(self, lanes: int) -> NDArray[np.int64]:
        found = self.accepted(lanes)
        found += self._dither(len(found))
        found += self._dither(len(found))
        return found

    def _dither(self, count: int) -> NDArray[np.int64]:
        """Of one server: two uniforms of width 2^-DITHER_BITS standard deviations, as parley.mpc.sampler draws them."""
        width = self.tables.format.scale_bits - DITHER_BITS
        words = (self.rng.words(2, count) >> np.uint64(64 - width)).astype(np.int64)
        return np.asarray(words[0] + words[1] - (1 << width))


class OwnNoise:
    """One server's own samples, each drawn for one opening. Any thread may ask.

    From the operating system's entropy at that moment, on no tape, with no share in the protocol's randomness. Nothing
    is kept from one draw to the next, so that a machine that was restored with its memory draws others.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._sampler: ClearSampler | None = None

    def add(self, shares: NDArray[np.uint64], shift: int) -> None:
        """To this server's shares of the noise, in place: fresh samples of the law, `shift` bits smaller."""
        with self._lock:
            sampler = self._ready()
            sampler.rng = Csprng.from_system()
            samples = sampler.fresh(len(shares))
        samples >>= shift
        shares += samples.view(np.uint64)
        samples[:] = 0

    def prepare(self) -> None:
        """Before the first round, which then need not wait for tables: a tenth of a second, half of one for `high`."""
        with self._lock:
            self._ready()

    def _ready(self) -> ClearSampler:
        if self._sampler is None:
            self._sampler = ClearSampler(self._tables, Csprng.from_system())
        return self._sampler


def _take(words: NDArray[np.uint64], start: int, bits: int) -> NDArray[np.int64]:
    """Bits start … start + bits − 1 of each word."""
    return (words >> np.uint64(start) & np.uint64((1 << bits) - 1)).astype(np.int64)
