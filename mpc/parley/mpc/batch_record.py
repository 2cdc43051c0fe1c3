"""What both servers have seen of one batch, and each of them signs: short, and enough to judge either of them by.

The statement of server r is the record with r's role before it. Both servers build both from what they sent and
received, so that a signature fits only if the two saw the same batch. Frames are in it as tags: GMAC under a key that
both servers' last messages fix, after all frames have been exchanged, so that nobody can aim at two frames of one tag.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from parley.mpc.handover import OPENING_BYTES, WITNESS_BYTES, digest
from parley.mpc.steps import Message

PREFIX = b"parley noise batch v1\0\0\0"
KEY_BYTES = 33
NONCE_BYTES = 16
TAG_BYTES = 16
MOST_FRAMES = 64
RATES = tuple(Fraction(1, each) for each in (16, 8, 4, 2, 1))
"""Audit rates that a session may have; at 1 nothing is ever produced."""

TERMS = struct.Struct("<32s32s33s33s32s32s32sHH")
BATCH = struct.Struct("<24sBQIB")
HEAD = struct.Struct("<32s32s32s")
SEAL = struct.Struct(f"<32s{WITNESS_BYTES}s{OPENING_BYTES}s{NONCE_BYTES}s")
FIXED_BYTES = BATCH.size + TERMS.size + 2 * HEAD.size + 2 * SEAL.size


@dataclass(frozen=True)
class Terms:
    """What a whole session is bound to. Pairs are of server 0 and server 1."""

    context: bytes
    """Of whom the servers are: equal on both."""
    session: bytes
    """SHA-256 over both hellos."""
    keys: tuple[bytes, bytes]
    """That sign."""
    points: tuple[bytes, bytes]
    """S, of the seeds' hand-over."""
    tables: bytes
    """Digest."""
    audit_rate: Fraction

    def batch(self, number: int) -> bytes:
        """The name of a batch: in every hash of it."""
        return digest("batch", self.session, struct.pack("<Q", number))

    def encoded(self) -> bytes:
        rate = self.audit_rate
        return TERMS.pack(
            self.context, self.session, *self.keys, *self.points, self.tables, rate.numerator, rate.denominator
        )

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        context, session, a, b, first, second, tables, numerator, denominator = TERMS.unpack(data)
        if (numerator, denominator) not in {(rate.numerator, rate.denominator) for rate in RATES}:
            raise ValueError("no audit rate")
        return cls(context, session, (a, b), (first, second), tables, Fraction(numerator, denominator))


@dataclass(frozen=True)
class Head:
    """Of one server's first message: the trees that follow it are in no record."""

    commitment: bytes
    witness: bytes
    """Digest."""
    asked: bytes
    """R."""

    def encoded(self) -> bytes:
        return HEAD.pack(self.commitment, self.witness, self.asked)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        return cls(*HEAD.unpack(data))


@dataclass(frozen=True)
class Seal:
    """One server's message after the last frame."""

    accept: bytes
    """Seal of its accept bits' share."""
    witness: bytes
    opening: bytes
    """Both masked."""
    nonce: bytes

    def encoded(self) -> bytes:
        return SEAL.pack(self.accept, self.witness, self.opening, self.nonce)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        return cls(*SEAL.unpack(data))


@dataclass(frozen=True)
class Record:
    """Pairs are of server 0 and server 1."""

    terms: Terms
    number: int
    lanes: int
    heads: tuple[Head, Head]
    seals: tuple[Seal, Seal]
    tags: tuple[tuple[bytes, ...], tuple[bytes, ...]]
    """Of the frames that each server sent."""

    @property
    def batch(self) -> bytes:
        return self.terms.batch(self.number)

    def statement(self, role: int) -> bytes:
        """What that server signs."""
        pieces = [
            BATCH.pack(PREFIX, role, self.number, self.lanes, len(self.tags[0])),
            self.terms.encoded(),
            *(head.encoded() for head in self.heads),
            *(seal.encoded() for seal in self.seals),
            *(tag for server in self.tags for tag in server),
        ]
        return b"".join(pieces)

    @classmethod
    def decoded(cls, statement: bytes) -> tuple[Self, int]:
        """The record and whose statement it is; a ValueError unless it is one to the last byte."""
        if len(statement) < FIXED_BYTES:
            raise ValueError("a statement cut off")
        prefix, role, number, lanes, frames = BATCH.unpack_from(statement)
        if prefix != PREFIX or role not in (0, 1) or frames > MOST_FRAMES:
            raise ValueError("no statement of a batch")
        if len(statement) != FIXED_BYTES + 2 * frames * TAG_BYTES:
            raise ValueError("a statement of another length than it says")
        at = BATCH.size

        def take(size: int) -> bytes:
            nonlocal at
            at += size
            return statement[at - size : at]

        terms = Terms.decoded(take(TERMS.size))
        heads = Head.decoded(take(HEAD.size)), Head.decoded(take(HEAD.size))
        seals = Seal.decoded(take(SEAL.size)), Seal.decoded(take(SEAL.size))
        sent, got = (tuple(take(TAG_BYTES) for _ in range(frames)) for _ in (0, 1))
        return cls(terms, number, lanes, heads, seals, (sent, got)), role


class FrameTags:
    """GMAC of every frame of a batch."""

    def __init__(self, batch: bytes, seals: Sequence[Seal]) -> None:
        self._key = algorithms.AES(digest("frame tags", batch, *(seal.encoded() for seal in seals))[:16])

    def of(self, role: int, index: int, frame: Message) -> bytes:
        """Of the frame with this number that this server sent."""
        mac = Cipher(self._key, modes.GCM(struct.pack("<BxxxQ", role, index))).encryptor()
        for piece in frame:
            mac.authenticate_additional_data(piece.data)
        mac.finalize()
        return mac.tag

    def of_all(self, role: int, frames: Sequence[Message]) -> tuple[bytes, ...]:
        return tuple(self.of(role, index, frame) for index, frame in enumerate(frames))
