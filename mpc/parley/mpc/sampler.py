"""Gaussian samples by ratio of uniforms, shared between two servers of which neither knows them.

One batch: a secret row of the public tables, a secret position m in its box, a secret height U; the accept bits [U <
T(m)] are opened, and nothing else; accepted lanes keep <x> = <+-(2U + 1) W(m)>, a standard normal times 2^scale_bits,
shared additively over Z_2^64. parley.mpc.tables defines T and W, parley.mpc.reference computes the same in the clear.

Everything is exact integer arithmetic on shares: no share is ever truncated here, so no wrap-around can happen and what
a server knows of its own shares says nothing of x. The only rounding is the release's (parley.mpc.ring).
"""

import copy
from dataclasses import dataclass
from typing import Self

import numpy as np

from parley.mpc.acceptance import check_accepted
from parley.mpc.gates import Gates
from parley.mpc.kernels import Bytes, Kernels, Words
from parley.mpc.law import DITHER_BITS
from parley.mpc.randomness import Csprng
from parley.mpc.sealed_shares import exchanged
from parley.mpc.steps import Steps, pack, together, unpack
from parley.mpc.tables import INDEX_BITS, MULTIPLEXED_BITS, Tables
from parley.mpc.transfers import Transfers, TransferSource

LANES = 8192
"""Of a full batch: 30 MB of transfers, large enough that an exchange's latency does not matter."""
LANE_STEP = 16
"""Lanes come in multiples of this."""


@dataclass
class Batch:
    """One server's view of a batch, as the tests compare it with the reference: shares of every internal value."""

    index: Bytes
    tail_index: Bytes
    level: Bytes
    row: Bytes
    positions: Bytes
    heights: Bytes
    signs: Bytes
    threshold: Words
    ratio: Words
    product: Words
    accepted: Bytes
    samples: Words
    multiplexed: Bytes


class Sampler:
    """One server's end of the protocol. Both ends make the same calls in the same order."""

    def __init__(self, kernels: Kernels, role: int, tables: Tables, source: TransferSource, rng: Csprng) -> None:
        self._kernels, self._role, self._tables, self._source, self._rng = kernels, role, tables, source, rng
        self._lookups = tables.lookups

    def batch(self, lanes: int) -> Steps[Words]:
        """Shares of the accepted samples of one batch of about `lanes` lanes, dithered: uint64[accepted]."""
        view = yield from self.view(lanes)
        check_accepted(self._tables, len(view.accepted), int(view.accepted.sum()))
        kept: Words = view.product[view.accepted.astype(bool)]
        return kept + dither(self._tables, len(kept), self._rng)

    def fed_by(self, source: TransferSource, rng: Csprng) -> Self:
        """The same sampler on other transfers and other randomness."""
        other = copy.copy(self)
        other._source, other._rng = source, rng
        return other

    def view(self, lanes: int) -> Steps[Batch]:
        """One batch with everything a server holds at its end."""
        lanes = -(-lanes // LANE_STEP) * LANE_STEP
        transfers = yield from self._source.extend(self.slots() * lanes)
        gates = Gates(self._kernels, self._role, lanes, transfers, self._rng)
        return (yield from self._lanes(gates))

    def slots(self) -> int:
        """Transfers per lane and direction: counted from the gates below."""
        form = self._tables.format

        def one_hot(bits: int) -> int:
            pairs = bits // 2
            return 4 * pairs if bits % 2 else 4 * pairs - 3

        head = one_hot(INDEX_BITS - MULTIPLEXED_BITS) + 1 + 3 + 1
        tail = one_hot(form.tail_bits) + 2 * (form.tail_levels - 1) + form.tail_levels - 2 + form.tail_levels
        rings = (form.threshold_bits + form.threshold_slope_bits + form.ratio_bits) // 2 + (
            form.ratio_slope_bits + 1
        ) // 2
        digits = form.threshold_bits // 4
        return head + tail + rings + form.position_bits + form.threshold_bits + 1 + 2 * digits + digits - 1

    # ------------------------------------------------------------ the row

    def _row(self, gates: Gates) -> Steps[tuple[Bytes, Bytes, Bytes, Bytes, Bytes]]:
        """The secret row: level 0's, or the tail's where level 0's is flagged."""
        (head, index, chosen), (tail, tail_index, level) = yield from together(self._head(gates), self._tail(gates))
        flag, _ = self._tables.format.fields()["flag"]
        flagged = gates.kernels.row_bits(head, flag, 1)
        width, bits = self._tables.format.row_bytes, self._tables.format.row_bits
        moved, _ = yield from gates.select(tail[None, :, :width], bits, flagged)
        row = head.copy()
        row[:, :width] ^= moved[0]
        return row, index, chosen, tail_index, level

    def _head(self, gates: Gates) -> Steps[tuple[Bytes, Bytes, Bytes]]:
        """Level 0's row: a one-hot index into each quarter of the table, then one of four."""
        index, chosen = yield from together(
            gates.one_hot(INDEX_BITS - MULTIPLEXED_BITS), gates.pairs_one_hot(MULTIPLEXED_BITS // 2)
        )
        rows = gates.kernels.lookup(index, *self._lookups[0])
        width, bits = self._tables.format.row_bytes, self._tables.format.row_bits
        parts, _ = yield from gates.select((rows[1:] ^ rows[0])[:, :, :width], bits, chosen[0])
        row = rows[0]
        row[:, :width] ^= parts[0] ^ parts[1] ^ parts[2]
        return row, index, chosen[0]

    def _tail(self, gates: Gates) -> Steps[tuple[Bytes, Bytes, Bytes]]:
        """The tail's row: one index for all levels, one level chosen."""
        index, level = yield from together(gates.one_hot(self._tables.format.tail_bits), self._level(gates))
        rows = gates.kernels.lookup(index, *self._lookups[1])
        width, bits = self._tables.format.row_bytes, self._tables.format.row_bits
        parts, _ = yield from gates.select(rows[:, :, :width], bits, level)
        return np.bitwise_xor.reduce(parts), index, level

    def _level(self, gates: Gates) -> Steps[Bytes]:
        """One-hot tail level, uint8[levels, lanes]: go on with probability 1/16, where two random digits agree."""
        levels = self._tables.format.tail_levels
        tables = yield from gates.digit_tables(None, levels - 1)
        on = yield from gates.prefixes(list(tables >> 1))
        first = np.full((1, gates.lanes), 1 - self._role, np.uint8)
        last = np.zeros((1, gates.lanes), np.uint8)
        reached = np.concatenate([first, on, last])
        return np.ascontiguousarray(reached[:-1] ^ reached[1:])

    # ------------------------------------------------------------ the sample

    def _lanes(self, gates: Gates) -> Steps[Batch]:
        form = self._tables.format
        ring = form.threshold_bits + 1
        row, index, chosen, tail_index, level = yield from self._row(gates)

        fields = {name: gates.kernels.row_bits(row, *place) for name, place in form.fields().items() if name != "flag"}
        if form.ratio_slope_bits % 2:  # to_ring takes bits in twos
            zero = np.zeros((1, gates.lanes), np.uint8)
            fields["ratio_slope"] = np.concatenate([fields["ratio_slope"], zero])
        heights, height_bits = gates.random_bits(form.threshold_bits)
        threshold, threshold_slope, ratio, ratio_slope, height = yield from together(
            gates.to_ring(fields["threshold"], ring), gates.to_ring(fields["threshold_slope"], ring),
            gates.to_ring(fields["ratio"], 64), gates.to_ring(fields["ratio_slope"], 64),
            gates.random_to_ring(heights, ring, block=1),
        )  # fmt: skip
        threshold_slope[-1] = -threshold_slope[-1]  # two's complement

        positions, position_bits = gates.random_bits(form.position_bits)
        rises = yield from gates.ring_products(
            positions,
            [
                (0, _slopes(ratio_slope, form.position_bits), 64),
                (1, _slopes(threshold_slope, form.position_bits), ring),
            ],
        )
        w = _weighted(ratio) + rises[0]
        t = _weighted(threshold) + rises[1]
        accepted, (signs, product) = yield from together(
            self._accept(gates, _weighted(height) - t), self._product(gates, heights, w)
        )
        return Batch(
            index, tail_index, level, row, position_bits, height_bits, signs, t, w, product, accepted, product, chosen
        )

    def _accept(self, gates: Gates, difference: Words) -> Steps[Bytes]:
        """Open [U - T < 0], the top bit of a sum of two shares mod 2^(bits + 1): the only opened value.

        Sealed first: who speaks last would force any lane in or out, and keep the true bit to itself.
        """
        bits = self._tables.format.threshold_bits
        low = difference & np.uint64((1 << bits) - 1)
        private = low if self._role == 0 else np.uint64((1 << bits) - 1) - low
        carry = yield from gates.less(private, bits)
        top = (difference >> np.uint64(bits) & np.uint64(1)).astype(np.uint8)
        opened = yield from self._opened(pack(carry ^ top))
        return unpack(opened, gates.lanes)

    def _opened(self, share: Bytes) -> Steps[Bytes]:
        theirs = yield from exchanged(self._role, share, self._rng)
        return share ^ theirs

    def _product(self, gates: Gates, heights: Transfers, w: Words) -> Steps[tuple[Bytes, Words]]:
        """<+-(2U + 1) W> = <W + sum of the height's bits times 2W, 4W, ...>, then a random sign."""
        shifts = np.arange(1, self._tables.format.threshold_bits + 1, dtype=np.uint64)
        (total,) = yield from gates.ring_products(heights, [(0, w << shifts[:, None], 64)])
        x = total + w
        slot, sign = gates.random_bits(1)
        (turned,) = yield from gates.ring_products(slot, [(0, -(x + x)[None], 64)])
        return sign[0], x + turned


def dither(tables: Tables, count: int, rng: Csprng) -> Words:
    """Two uniforms of width 2^-DITHER_BITS standard deviations, one server's own secret: what smooths the law
    (parley.mpc.law).
    """
    shift = np.uint64(64 - (tables.format.scale_bits - DITHER_BITS))
    words = rng.words(2, count) >> shift
    return np.asarray(words[0] + words[1] - (np.uint64(1) << np.uint64(64 - int(shift))))


def _weighted(bits: Words) -> Words:
    """sum_k 2^k b_k of shared bits uint64[k, lanes]."""
    total = np.zeros(bits.shape[1], np.uint64)
    for bit in bits[::-1]:
        total = total + total + bit
    return total


def _slopes(bits: Words, position_bits: int) -> Words:
    """Shares of floor(slope / 2^(position_bits - k)) for k = 0 .. position_bits - 1: sums of the slope's upper bits."""
    value = _weighted(bits[position_bits:])
    values = [value]
    for k in range(1, position_bits):
        value = value + value + bits[position_bits - k]
        values.append(value)
    return np.stack(values)
