"""Gates on shared values, over all lanes of a batch at once. Semi-honest given ideal transfers; docs/noise-protocol.md.

Notation: [b] is a bit XOR-shared between the servers, <y> a value shared additively modulo a power of two. Every gate
costs one exchange, two where a digit table depends on bits that are not the transfers' own. Where a gate's bits are
random anyway, they are the transfers' choice bits and cost nothing; otherwise the receiver tells the sender, in the
same exchange as the gate's messages, at which lanes its bit differs from its choice (a flip, uniform to the sender).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError
from parley.mpc.kernels import Bytes, Kernels, Words
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Steps, as_bytes, pack, together, unpack
from parley.mpc.transfers import Transfers

ONE: Words = np.ones(1, np.uint64)


class Gates:
    """One batch of `lanes` lanes, fed by transfers laid out slot by slot: slot s serves lane i with transfer s *
    lanes + i.
    """

    def __init__(self, kernels: Kernels, role: int, lanes: int, transfers: Transfers, rng: Csprng) -> None:
        self.kernels, self.role, self.lanes, self.rng = kernels, role, lanes, rng
        self._transfers = transfers
        self._used = 0

    def take(self, slots: int) -> Transfers:
        """The next unused slots; each is used by one gate."""
        start, self._used = self._used, self._used + slots * self.lanes
        if self._used > len(self._transfers.choices):
            raise ConfigurationError("a batch needs more transfers than it was given")
        return self._transfers.part(start, self._used)

    @property
    def slots_used(self) -> int:
        return self._used // self.lanes

    def choices(self, transfers: Transfers) -> Bytes:
        """The choice bits by slot: uint8[slots, lanes]."""
        return transfers.choices.reshape(-1, self.lanes)

    def random_bits(self, count: int) -> tuple[Transfers, Bytes]:
        """XOR-shared uniform bits, free: the choices of fresh transfers."""
        transfers = self.take(count)
        return transfers, self.choices(transfers)

    # ------------------------------------------------------------ over F_2

    def select(self, vectors: Bytes, vector_bits: int, bits: Bytes | None = None) -> Steps[tuple[Bytes, Bytes]]:
        """[b_j] times an XOR-shared vector v_j of `vector_bits` bits, for each j: shares of b_j v_j, and the bits.

        vectors uint8[k, lanes, width]; bits uint8[k, lanes], or None for random ones. The sender of a transfer sends
        k0 ^ k1 ^ (its share of v), from which the receiver gets a share of its bit times that; both directions make
        b v.
        """
        count, shape = len(vectors), (-1, vectors.shape[2])
        transfers = self.take(count)
        mine = self.choices(transfers) if bits is None else bits
        flat = np.ascontiguousarray(vectors).reshape(shape)
        last = (1 << (vector_bits - 1) % 8 + 1) - 1
        blocks = -(-vector_bits // 128)
        k0, k1 = transfers.sender_pads(blocks)
        message = self.kernels.xor_message(k0, k1, flat, last)
        flips = [] if bits is None else [pack(bits ^ self.choices(transfers))]
        answer, *packed = yield [message.reshape(-1), *flips]
        share = self.kernels.xor_share(
            k0, k1, transfers.receiver_pads(blocks), self._flips(packed, count).reshape(-1),
            np.ascontiguousarray(mine).reshape(-1), answer.reshape(shape), flat, last,
        )  # fmt: skip
        return share.reshape(vectors.shape), mine

    def _flips(self, packed: Sequence[Bytes], slots: int) -> Bytes:
        return unpack(packed[0], slots, self.lanes) if packed else np.zeros((slots, self.lanes), np.uint8)

    def prefixes(self, bits: Sequence[Bytes]) -> Steps[Bytes]:
        """z_1, z_1 z_2, z_1 z_2 z_3, ...: uint8[n, lanes]; log n exchanges, n - 1 slots at most."""
        if len(bits) == 1:
            return bits[0][None]
        middle = (len(bits) + 1) // 2
        left, right = yield from together(self.prefixes(bits[:middle]), self.prefixes(bits[middle:]))
        packed = np.packbits(right.T, axis=1, bitorder="little")
        product, _ = yield from self.select(packed[None], len(right), left[-1][None])
        both = np.unpackbits(product[0], axis=1, count=len(right), bitorder="little").T
        return np.concatenate([left, both])

    def one_hot(self, bits: int) -> Steps[Bytes]:
        """A shared unit vector at a uniform secret index: uint8[lanes, 2^bits / 8].

        Two index bits at a time: with o_1, o_2, o_3 the one-hot form of two random bits (o_0 the rest), e becomes
        (e + o_1 e + o_2 e + o_3 e, o_1 e, o_2 e, o_3 e).
        """
        pairs = bits // 2
        quarters = yield from self.pairs_one_hot(pairs)
        entries = 1 << bits % 2
        if entries == 2:
            first = self.rng.bits(self.lanes)  # anyone's own bits are shares of random ones
            vector = _column(first ^ (1 - self.role) | first << 1)
        else:
            vector, entries = _four(quarters[0], self.role), 4
            quarters = quarters[1:]
        for chosen in quarters:
            parts, _ = yield from self.select(np.stack([vector] * 3), entries, chosen)
            vector = _joined([vector ^ parts[0] ^ parts[1] ^ parts[2], *parts], entries)
            entries *= 4
        return vector

    def pairs_one_hot(self, pairs: int) -> Steps[Bytes]:
        """For random bit pairs (a, b): shares of [index = 1], [index = 2], [index = 3], uint8[pairs, 3, lanes]; one
        exchange.
        """
        a = self.rng.bits(pairs, self.lanes)
        products, b = yield from self.select(a[:, :, None], 1)
        both = products[:, :, 0]
        return np.stack([a ^ both, b ^ both, both], axis=1)

    # ------------------------------------------------------------ from bits to integers

    def to_ring(self, bits: Bytes, ring_bits: int) -> Steps[Words]:
        """Shared bits as shared integers 0 or 1 mod 2^ring_bits: uint64[k, lanes]; k even, half a transfer each."""
        half = len(bits) // 2
        transfers = self.take(half)
        flips = bits.reshape(2, half, -1)[1 - self.role] ^ self.choices(transfers)
        return (yield from self._one_way(transfers, transfers, bits, ring_bits, 0, flips))

    def random_to_ring(self, transfers: Transfers, ring_bits: int, block: int) -> Steps[Words]:
        """As to_ring for the choices of transfers whose block `block` is unused: no flips, one direction of each."""
        middle = len(transfers.choices) // 2
        halves = transfers.part(0, middle), transfers.part(middle, 2 * middle)
        bits = self.choices(transfers)
        return (yield from self._one_way(halves[self.role], halves[1 - self.role], bits, ring_bits, block, None))

    def _one_way(
        self,
        senders: Transfers,
        receivers: Transfers,
        bits: Bytes,
        ring_bits: int,
        block: int,
        flips: Bytes | None,
    ) -> Steps[Words]:
        """b = b_S + (1 - 2 b_S) b_R: one server sends by its share b_S, the other chooses by b_R. Server 0 sends for
        the first half of the bits, server 1 for the rest.
        """
        half = len(bits) // 2
        sent = np.ascontiguousarray(bits.reshape(2, half, -1)[self.role]).reshape(-1)
        k0, k1 = senders.sender_words(block)
        message = self.kernels.ring_message(k0, k1, sent, ONE, ring_bits)
        answer, *packed = yield [message.reshape(-1), *([] if flips is None else [pack(flips)])]
        mine = np.zeros(len(sent), np.uint8) if flips is None else flips.reshape(-1)
        theirs = self._flips(packed, half).reshape(-1)
        shares = np.zeros((2, len(sent)), np.uint64)
        self.kernels.ring_sender_share(k0, theirs, sent, ONE, shares[self.role])
        pads, arrived = receivers.receiver_words(block), answer.reshape(message.shape)
        self.kernels.ring_receiver_share(pads, mine, receivers.choices, arrived, shares[1 - self.role])
        return shares.reshape(2 * half, self.lanes)

    # ------------------------------------------------------------ over Z_2^bits

    def ring_products(self, transfers: Transfers, terms: Sequence[tuple[int, Words, int]]) -> Steps[list[Words]]:
        """For random bits b_j, the choices of `transfers`, and each term (block, <y_j> uint64[k, lanes], ring_bits):
        <sum_j b_j y_j>, uint64[lanes]; one exchange, no flips.
        """
        bits = transfers.choices
        none = np.zeros(len(bits), np.uint8)
        messages, kept = [], []
        for block, values, ring_bits in terms:
            k0, k1 = transfers.sender_words(block)
            flat = np.ascontiguousarray(values).reshape(-1)
            messages.append(self.kernels.ring_message(k0, k1, bits, flat, ring_bits))
            kept.append((k0, flat))
        answers = yield [message.reshape(-1) for message in messages]
        totals = []
        for (block, _, _), message, (k0, flat), answer in zip(terms, messages, kept, answers, strict=True):
            share = np.zeros(len(bits), np.uint64)
            self.kernels.ring_sender_share(k0, none, bits, flat, share)
            pads = transfers.receiver_words(block)
            self.kernels.ring_receiver_share(pads, none, bits, answer.reshape(message.shape), share)
            totals.append(np.asarray(share.reshape(-1, self.lanes).sum(axis=0, dtype=np.uint64)))
        return totals

    # ------------------------------------------------------------ comparing digits

    def digit_tables(self, digits: Bytes | None, count: int) -> Steps[Bytes]:
        """Server 0 holds 4-bit digits a, server 1 digits b: shares of [b < a] (bit 0) and [a = b] (bit 1),
        uint8[count, lanes].

        One-of-sixteen transfer of a two-bit table out of four; server 0 sends for the first half of the lanes, server 1
        for the rest. `digits` None: random ones, the choices, one exchange; else two.
        """
        half = self.lanes // 2
        transfers = self.take(2 * count)
        choices = transfers.choices.reshape(count, 4, half)
        halves = (slice(0, half), slice(half, self.lanes))
        sending, receiving = halves[self.role], halves[1 - self.role]
        chosen = choices[:, 0] | choices[:, 1] << 1 | choices[:, 2] << 2 | choices[:, 3] << 3
        theirs = np.zeros((count, 4, half), np.uint8)
        if digits is None:
            sent, got = self.rng.octets(count, half) & 15, chosen
        else:
            sent, got = np.ascontiguousarray(digits[:, sending]), np.ascontiguousarray(digits[:, receiving])
            wanted = np.stack([got >> t & 1 for t in range(4)], axis=1)
            (answer,) = yield [pack(wanted ^ choices)]
            theirs = unpack(answer, count, 4, half)
        masks = self.rng.octets(count, half) & 3
        k0, k1 = (words.reshape(count, 4, half) for words in transfers.sender_words())
        message = np.empty((count, half), np.uint32)
        for j in range(count):
            self.kernels.digit_send(k0[j], k1[j], theirs[j], sent[j], _TABLES[self.role], masks[j], message[j])
        (answer,) = yield [as_bytes(message)]
        arrived = answer.view(np.uint8).copy().view(np.uint32).reshape(count, half)
        kc = transfers.receiver_words().reshape(count, 4, half)
        out = np.empty((count, half), np.uint8)
        for j in range(count):
            self.kernels.digit_receive(kc[j], got[j], arrived[j], out[j])
        result = np.empty((count, self.lanes), np.uint8)
        result[:, sending], result[:, receiving] = masks, out
        return result

    def less(self, values: Words, bits: int) -> Steps[Bytes]:
        """[b < a] for server 0's private a and server 1's private b of `bits` bits (a multiple of 4): uint8[lanes]."""
        count = bits // 4
        digits = np.stack([(values >> np.uint64(4 * j) & np.uint64(15)).astype(np.uint8) for j in range(count)])
        tables = yield from self.digit_tables(digits, count)
        parts = list(tables)  # least significant first; bit 0 less, bit 1 equal
        while len(parts) > 1:
            pairs = len(parts) // 2
            low, high = parts[0 : 2 * pairs : 2], parts[1 : 2 * pairs : 2]
            equal = np.stack([h >> 1 for h in high])
            products, _ = yield from self.select(np.stack(low)[:, :, None], 2, equal)
            parts = [h & 1 ^ p[:, 0] for h, p in zip(high, products, strict=True)] + parts[2 * pairs :]
        less: Bytes = parts[0] & np.uint8(1)
        return less


def _digit_tables(server: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """For the sender's digit s: two bits for each digit r of the receiver, [b < a] and [a = b]."""
    tables = []
    for s in range(16):
        table = 0
        for r in range(16):
            a, b = (s, r) if server == 0 else (r, s)
            table |= ((b < a) | (a == b) << 1) << 2 * r
        tables.append(table)
    return np.array(tables, np.uint32)


_TABLES = [_digit_tables(0), _digit_tables(1)]


def _four(chosen: Bytes, role: int) -> Bytes:
    """One-hot of one pair, uint8[lanes, 1]: entry 0 is one minus the others."""
    rest = chosen[0] ^ chosen[1] ^ chosen[2] ^ (1 - role)
    return _column(rest | chosen[0] << 1 | chosen[1] << 2 | chosen[2] << 3)


def _column(values: NDArray[Any]) -> Bytes:
    """Small integers as vectors of one byte."""
    return values.astype(np.uint8)[:, None]


def _joined(parts: list[Bytes], entries: int) -> Bytes:
    """Four vectors of `entries` bits one after the other."""
    if entries % 8 == 0:
        return np.concatenate(parts, axis=1)
    if 4 * entries <= 8:
        return sum(part << (entries * i) for i, part in enumerate(parts)).astype(np.uint8)  # type: ignore[union-attr]
    pairs = [parts[0] | parts[1] << entries, parts[2] | parts[3] << entries]
    return np.concatenate(pairs, axis=1)
