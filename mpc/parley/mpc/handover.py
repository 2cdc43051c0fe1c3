"""How a server hands over the seed of a batch to an auditor, without learning whether there is one.

Each server commits to what it will compute with: seed, delta and a salt (its `Opening`). Each also holds a scalar y
and has named S = yG for the whole session. Who audits sends R = xG + S, who does not R = xG: uniform either way. The
other one answers with two masked texts, its witness under a hash of yR and its opening under a hash of y(R - S). Who
does not audit can read the first, who does the second, and nobody both (computational Diffie-Hellman, as S stays the
same with an oracle for the decision problem, in the random-oracle model).
"""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from parley.mpc import group
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Bytes, unpack

DIGEST_BYTES = 32
SEED_BYTES = 32
DELTA_BYTES = 16
SALT_BYTES = 32
WITNESS_BYTES = 32
OPENING_BYTES = SEED_BYTES + DELTA_BYTES + SALT_BYTES


def digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of the parts, each with its length, under a label of its own."""
    made = hashlib.sha256(b"parley covert v1 " + label.encode() + b"\0")
    for part in parts:
        made.update(len(part).to_bytes(8, "little") + part)
    return made.digest()


@dataclass(frozen=True, repr=False)
class Opening:
    """What all of a server's messages in a batch follow from."""

    seed: bytes
    delta: bytes
    """128 bits: of the batch's transfers, as its choices of the master transfers fix them."""
    salt: bytes

    def encoded(self) -> bytes:
        return self.seed + self.delta + self.salt

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        if len(data) != OPENING_BYTES:
            raise ValueError(f"an opening has {OPENING_BYTES} bytes, this one {len(data)}")
        middle = SEED_BYTES + DELTA_BYTES
        return cls(data[:SEED_BYTES], data[SEED_BYTES:middle], data[middle:])

    @property
    def delta_bits(self) -> Bytes:
        return unpack(np.frombuffer(self.delta, np.uint8), 8 * DELTA_BYTES)

    def commitment(self, batch: bytes, role: int) -> bytes:
        return digest("commitment", batch, bytes([role]), self.encoded())

    def tape(self, batch: bytes, role: int) -> Csprng:
        """Every random bit of the protocol itself, in the order in which it asks for them."""
        return Csprng(digest("tape", batch, bytes([role]), self.seed))

    def audited(self, batch: bytes, role: int) -> bytes:
        """What only who has read this opening can say."""
        return digest("audited", batch, bytes([role]), self.encoded())


def witness_digest(batch: bytes, role: int, witness: bytes) -> bytes:
    return digest("witness", batch, bytes([role]), witness)


def question(x: bytes, their_point: bytes, audit: bool) -> bytes:
    """R. Both sums are computed, whatever the answer."""
    plain = group.base(x)
    shifted = group.plus(plain, their_point)
    return shifted if audit else plain


@dataclass(frozen=True)
class Masks:
    """Of what one server hands over in one batch."""

    batch: bytes
    sender: int
    point: bytes
    """S of the sender."""
    asked: bytes
    """R of the other one."""

    def _mask(self, audit: bool, shared: bytes, size: int) -> bytes:
        text = digest("hand-over", self.batch, bytes([self.sender, audit]), self.point, self.asked, shared)
        return hashlib.shake_256(text).digest(size)

    def answered(self, y: bytes, witness: bytes, opening: Opening) -> tuple[bytes, bytes]:
        """Both texts, masked, by the server that holds y."""
        plain, shifted = group.multiply(y, self.asked), group.multiply(y, group.minus(self.asked, self.point))
        return (
            xor(witness, self._mask(False, plain, WITNESS_BYTES)),
            xor(opening.encoded(), self._mask(True, shifted, OPENING_BYTES)),
        )

    def read(self, x: bytes, audit: bool, masked: bytes) -> bytes:
        """The one text that the server with x can read."""
        return xor(masked, self._mask(audit, group.multiply(x, self.point), len(masked)))


def xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")
