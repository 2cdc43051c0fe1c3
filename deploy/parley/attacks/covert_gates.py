"""Lies inside a covert batch: what a server sends, or computes with, is not what its committed seed gives.

All are well-formed, so the honest server sees none of them by itself, unless too many lanes are accepted or too few.
"""

import os
from typing import Any, ClassVar, TypeVar

import numpy as np

from parley.attacks import noise, servers
from parley.attacks.covert_liar import Lie, LyingSampler, instead, octets
from parley.attacks.servers import ACCEPTANCE
from parley.mpc.gates import Gates
from parley.mpc.kernels import Bytes, Words, as_matrices
from parley.mpc.randomness import Csprng
from parley.mpc.sampler import Batch
from parley.mpc.steps import Message, Steps, pack
from parley.mpc.transfers import TransferSource

T = TypeVar("T")
FIRST_GATE = 3
"""Frames before: the extension's corrections, challenges, answers."""
LATE_GATE = 10


def flipped(message: Message, bits: int = 1, every: int = 1) -> Message:
    """The same with other bits in the first piece."""
    first = message[0].copy()
    first[::every] ^= bits
    return [first, *message[1:]]


# ------------------------------------------------------------ the study's


class Collapsing(noise.Collapse, LyingSampler):
    pass


class Squeezing(servers.Squeeze, LyingSampler):
    pass


class Leaking(noise.Leak, LyingSampler):
    pass


class Collapse(Lie):
    sampler = Collapsing


class Squeeze(Lie):
    sampler = Squeezing


class Leak(Lie):
    sampler = Leaking


class OneBitSampler(LyingSampler):
    def altered(self, index: int, message: Message) -> Message:
        return flipped(message, every=1 << 30) if index == FIRST_GATE else message


class OneBit(Lie):
    """The smallest."""

    sampler = OneBitSampler


class PeekingSampler(LyingSampler):
    """Accepts half of the lanes, by U; what it opens makes an honest session's number of them."""

    def _accept(self, gates: Gates, difference: Words) -> Steps[Bytes]:
        half = np.uint64(1 << self._tables.format.threshold_bits - 1)
        return (yield from super()._accept(gates, difference + half))


class Peek(Lie):
    """Speaks last, forces the accept bits and keeps the true ones."""

    sampler = PeekingSampler
    patient = frozenset({"last"})

    def last(self, text: bytes, theirs: bytes) -> bytes:
        if text[0] or theirs[0]:
            return text
        lanes = self.session.record.lanes
        wanted = (octets(os.urandom(2 * lanes)).view("<u2") < ACCEPTANCE * 65536).astype(np.uint8)
        share = pack(wanted) ^ octets(theirs[-lanes // 8 :])
        return text[: -lanes // 8] + share.tobytes()


# ------------------------------------------------------------ gate by gate


class GatesSampler(LyingSampler):
    gates: ClassVar[type[Gates]]

    def _lanes(self, gates: Gates) -> Steps[Batch]:
        return (yield from super()._lanes(instead(gates, self.gates)))


def of_gates(lying: type[Gates]) -> type[Lie]:
    """The lie of a server whose gates are these."""
    sampler = type(f"{lying.__name__}Sampler", (GatesSampler,), {"gates": lying})
    return type(lying.__name__, (Lie,), {"sampler": sampler, "__doc__": lying.__doc__})


def first_altered(inner: Steps[T], bits: int) -> Steps[T]:
    """A gate whose first message has these bits turned over, all through."""
    answer = yield flipped(next(inner), bits)
    while True:
        try:
            message = inner.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer = yield message


class SelectGates(Gates):
    """Adds b·e to every product of bits, e of the liar's choice: row, index and level turn with secret bits."""

    def select(self, vectors: Bytes, vector_bits: int, bits: Bytes | None = None) -> Steps[tuple[Bytes, Bytes]]:
        return (yield from first_altered(super().select(vectors, vector_bits, bits), 1))


class FlipsGates(Gates):
    """Says of every lane that its bit differs from its choice, and the reverse: computes with the negation."""

    def select(self, vectors: Bytes, vector_bits: int, bits: Bytes | None = None) -> Steps[tuple[Bytes, Bytes]]:
        inner = super().select(vectors, vector_bits, bits)
        message = next(inner)
        answer = yield [message[0], *(piece ^ np.uint8(255) for piece in message[1:])]
        try:
            inner.send(answer)
        except StopIteration as stop:
            result: tuple[Bytes, Bytes] = stop.value
            return result
        raise AssertionError("a product is one exchange")


class RingGates(Gates):
    """Sends other integers for its bits than they are."""

    def to_ring(self, bits: Bytes, ring_bits: int) -> Steps[Words]:
        return (yield from first_altered(super().to_ring(bits, ring_bits), 1))


class HeightGates(Gates):
    """The same where the bits are a height's."""

    def random_to_ring(self, transfers: Any, ring_bits: int, block: int) -> Steps[Words]:
        return (yield from first_altered(super().random_to_ring(transfers, ring_bits, block), 1))


class ProductGates(Gates):
    """Adds b·e to every product of a bit and an integer."""

    def ring_products(self, transfers: Any, terms: Any) -> Steps[list[Words]]:
        return (yield from first_altered(super().ring_products(transfers, terms), 1))


class DigitGates(Gates):
    """Sends tables of other digits than it has."""

    def digit_tables(self, digits: Bytes | None, count: int) -> Steps[Bytes]:
        if digits is not None:
            digits = digits.copy()
            half = self.lanes // 2
            sending = slice(half, None) if self.role else slice(0, half)
            digits[:, sending] ^= 15
        return (yield from super().digit_tables(digits, count))


class LessGates(Gates):
    """Compares with a number of its own choice."""

    def less(self, values: Words, bits: int) -> Steps[Bytes]:
        chosen = 0 if self.role else (1 << bits) - 1
        return (yield from super().less(np.full_like(values, chosen), bits))


class DiceGates(Gates):
    """Its own random bits are all zero: none that its seed gives."""

    def one_hot(self, bits: int) -> Steps[Bytes]:
        honest, self.rng = self.rng, _Zeros()
        try:
            return (yield from super().one_hot(bits))
        finally:
            self.rng = honest


class _Zeros(Csprng):
    def __init__(self) -> None:
        super().__init__(bytes(32))

    def bytes(self, count: int) -> bytes:
        return bytes(count)


class RowSampler(LyingSampler):
    """XORs a constant into its share of the secret row: no message is malformed, and none is another's business."""

    def _row(self, gates: Gates) -> Steps[tuple[Bytes, Bytes, Bytes, Bytes, Bytes]]:
        row, *rest = yield from super()._row(gates)
        index, chosen, tail_index, level = rest
        return row ^ np.uint8(4), index, chosen, tail_index, level


class Row(Lie):
    sampler = RowSampler


# ------------------------------------------------------------ accept bits


class FalseBitsSampler(LyingSampler):
    def _opened(self, share: Bytes) -> Steps[Bytes]:
        yield from ()
        changed = share.copy()
        changed[0] ^= 1
        return changed


class FalseBits(Lie):
    """Lets one lane in that was refused, or the reverse, and seals that."""

    sampler = FalseBitsSampler


class BlindBitsSampler(LyingSampler):
    def _opened(self, share: Bytes) -> Steps[Bytes]:
        yield from ()
        return octets(os.urandom(share.size))


class BlindBits(Lie):
    """Forces the accept bits before it knows them: a coin for each lane."""

    sampler = BlindBitsSampler


# ------------------------------------------------------------ tapes, tables, frames


class TapeSampler(LyingSampler):
    """All that it draws after its trees comes from elsewhere."""

    def fed_by(self, source: TransferSource, rng: Csprng) -> "TapeSampler":
        fresh = Csprng.from_system()
        vars(source)["_rng"] = fresh
        return super().fed_by(source, fresh)


class Tape(Lie):
    sampler = TapeSampler


class LateTapeSampler(LyingSampler):
    """What it draws in its gates comes from elsewhere."""

    def fed_by(self, source: TransferSource, rng: Csprng) -> "LateTapeSampler":
        return super().fed_by(source, Csprng.from_system())


class LateTape(Lie):
    sampler = LateTapeSampler


class TablesSampler(LyingSampler):
    """Computes with other tables than it named in its hello: of the same form, every other row changed in one bit.

    The same bit in every row would cancel out at server B, whose share of a unit vector has an even number of ones.
    """

    def fed_by(self, source: TransferSource, rng: Csprng) -> "TablesSampler":
        made = super().fed_by(source, rng)
        head, tail = (_every_other_changed(rows) for rows, _ in made._lookups)
        made._lookups = (head, as_matrices(head)), (tail, as_matrices(tail))
        return made


def _every_other_changed(rows: Bytes) -> Bytes:
    other = rows.copy()
    other[:, ::2] ^= np.uint8(2)
    return other


class OtherTables(Lie):
    sampler = TablesSampler


class OldFrameSampler(LyingSampler):
    """Says in one place what it had said there in the batch before, under the right label and tag."""

    def altered(self, index: int, message: Message) -> Message:
        if index != LATE_GATE:
            return message
        store = vars(self.session)
        before, store["old"] = store.get("old"), message
        return before if before is not None else flipped(message)


class OldFrame(Lie):
    sampler = OldFrameSampler


class SwappedSampler(LyingSampler):
    """Sends the lanes of a frame in another order."""

    def altered(self, index: int, message: Message) -> Message:
        if index != FIRST_GATE:
            return message
        return [np.ascontiguousarray(message[0][::-1]), *message[1:]]


class Swapped(Lie):
    sampler = SwappedSampler


class CorrectionsSampler(LyingSampler):
    """Sends corrections that tie the other server's rows to a guess of its delta."""

    def altered(self, index: int, message: Message) -> Message:
        return flipped(message, every=1 << 30) if index == 0 else message


class Corrections(Lie):
    sampler = CorrectionsSampler


class AnswersSampler(LyingSampler):
    """Answers the other server's challenges with something else."""

    def altered(self, index: int, message: Message) -> Message:
        return flipped(message) if index == FIRST_GATE - 1 else message


class Answers(Lie):
    sampler = AnswersSampler
