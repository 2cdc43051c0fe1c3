"""What a server will have stood for once an opening is committed, as its signed statement says it.

`mpc` signs nothing: who opens a sum hands in what makes a signed statement of a `Draft` (parley.node.statements).
"""

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Contribution = tuple[str, bytes]
"""A party, and the digest of its upload: of both halves' commitments."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An opening as one server sees it, before it is committed."""

    round: int
    query: bytes
    """SHA-256 of the question."""
    contributions: tuple[Contribution, ...]
    opening: bytes
    epoch: bytes
    """Of the noise session."""
    start: int
    """Of the noise in that session."""
    length: int
    share: bytes
    """SHA-256 of this server's release share."""
    previous: bytes | None
    """The signed statement of the round before, if there is one."""
    audits: tuple[int, int] = (0, 0)
    """In this epoch, before the last sample's batch: batches of the other server that this one has audited, and of its
    own that it was audited in and passed.
    """


Sign = Callable[[Draft], bytes]


def unsigned(draft: Draft) -> bytes:
    """Where there is no run to speak of: benchmarks."""
    return b""


def opening_id(epoch: bytes, start: int, length: int, contributions: Sequence[Contribution]) -> bytes:
    """Sixteen bytes that both servers' shares of one opening have in common: of its noise's place, and of who is in it
    with what. Anybody who has a statement can compute it again.
    """
    digest = hashlib.sha256(b"parley opening place v2" + struct.pack("<16sQQ", epoch, start, length))
    for party, upload in contributions:
        name = party.encode()
        digest.update(struct.pack("<QQ", len(name), len(upload)) + name + upload)
    return digest.digest()[:16]
