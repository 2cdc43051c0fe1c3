"""Correlated randomness as an interface: rows q_j = t_j ^ c_j delta, and the one-time pads hashed from them.

As sender of a transfer a server holds q_j and its secret delta; as receiver of another it holds t_j and a random bit
c_j. H(q_j, j) and H(q_j ^ delta, j) are then two random pads of which the receiver knows the one its bit chooses,
H(t_j, j). H is the tweakable pi(pi(x) ^ (j, block)) ^ pi(x), pi AES under a key drawn for the session (Guo, Katz,
Wang and Yu 2020).

`ot_extension.ObliviousTransfers` is the real source. `dealer.Dealer` is for tests.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from parley.mpc.errors import SessionClosedError
from parley.mpc.kernels import ROW_BYTES, Bytes, Kernels, Words
from parley.mpc.steps import Steps

MOST_TRANSFERS = 1 << 34
"""Under one delta; then the session ends and another one is opened."""
NO_OFFSET: Bytes = np.zeros(16, np.uint8)
OTHER_DIRECTION = 1 << 63
"""Set in the tweak of transfers sent by server 1."""


@dataclass(frozen=True)
class Transfers:
    """`count` transfers in each direction; slices of it are handed to gates, each used once."""

    kernels: Kernels
    hash_key: Bytes
    delta: Bytes
    """uint8[16]: as sender."""
    sender_rows: Bytes
    """uint8[count, 16]: q."""
    receiver_rows: Bytes
    """uint8[count, 16]: t."""
    choices: Bytes
    """uint8[count]: c, one bit a byte."""
    first_index: int
    role: int

    def part(self, start: int, stop: int) -> "Transfers":
        """Transfers start .. stop."""
        return Transfers(
            self.kernels, self.hash_key, self.delta, self.sender_rows[start:stop], self.receiver_rows[start:stop],
            self.choices[start:stop], self.first_index + start, self.role,
        )  # fmt: skip

    def _index(self, sender: int) -> int:
        return self.first_index | (OTHER_DIRECTION if sender else 0)

    def sender_words(self, block: int = 0) -> tuple[Words, Words]:
        """Both pads of each transfer this server sends, 64 bits each."""
        index = self._index(self.role)
        return (
            self.kernels.hash_words(self.hash_key, self.sender_rows, NO_OFFSET, index, block),
            self.kernels.hash_words(self.hash_key, self.sender_rows, self.delta, index, block),
        )

    def receiver_words(self, block: int = 0) -> Words:
        """The chosen pad of each transfer this server receives, 64 bits each."""
        index = self._index(1 - self.role)
        return self.kernels.hash_words(self.hash_key, self.receiver_rows, NO_OFFSET, index, block)

    def sender_pads(self, blocks: int) -> tuple[Bytes, Bytes]:
        """As sender_words, 16 * blocks bytes each."""
        index = self._index(self.role)
        return (
            self.kernels.hash_blocks(self.hash_key, self.sender_rows, NO_OFFSET, index, blocks),
            self.kernels.hash_blocks(self.hash_key, self.sender_rows, self.delta, index, blocks),
        )

    def receiver_pads(self, blocks: int) -> Bytes:
        """As receiver_words, 16 * blocks bytes each."""
        index = self._index(1 - self.role)
        return self.kernels.hash_blocks(self.hash_key, self.receiver_rows, NO_OFFSET, index, blocks)


class Room:
    """Memory for the rows of one extension after another.

    Those of a large batch take tens of megabytes each way, more than the C library keeps: the system would clear them
    anew for each batch, which costs a tenth of it.
    """

    def __init__(self) -> None:
        self._held: dict[int, Bytes] = {}

    def rows(self, sender: int, count: int) -> Bytes:
        """uint8[count, 16], without meaning, for what that server sends."""
        held = self._held.get(sender)
        if held is None or len(held) < count:
            held = self._held[sender] = np.empty((count, ROW_BYTES), np.uint8)
        return held[:count]


class TransferSource(Protocol):
    """Makes transfers in bulk, together with the peer."""

    def extend(self, count: int) -> Steps[Transfers]:
        """At least `count` fresh transfers in each direction."""


def check_budget(used: int, more: int) -> None:
    """Refuse to stretch one delta too far."""
    if used + more > MOST_TRANSFERS:
        raise SessionClosedError(f"{used:,} transfers made under one secret: open a new session")
