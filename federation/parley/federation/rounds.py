"""What every role computes alike about a round: digests of points, questions and uploads.

An upload has two halves. Each aggregator sees its own and only a commitment to the other; both compute the same upload
digest, by which they agree on the set of contributors. The half of server A begins with 32 random bytes: server B can
expand the seed, and a bare hash of A's half would let it test guesses of the vector against it.

What is committed to, signed and resent are a half's bytes. For server A that is 32 random bytes, then the numbers,
`Manifest.share_bits` each and without a bit between them (parley.mpc.packing): one vector has one spelling.
"""

import hashlib
import struct
from collections.abc import Sequence

from parley.federation.question import LocalFit
from parley.mpc.packing import Words, pack, packed_bytes, unpack
from parley.mpc.randomness import SEED_BYTES

BLIND_BYTES = 32
DIGEST_BYTES = 32
PIECE_BYTES = 1 << 20
"""Of anything that is sent in pieces."""
MOST_WAIT_SECONDS = 30.0
"""Of a long poll."""


def bounded_wait(asked_seconds: float) -> float:
    """Of a long poll, whatever was asked: nan, which compares false, would spoil the order of the loop's timers."""
    return min(asked_seconds, MOST_WAIT_SECONDS) if asked_seconds > 0 else 0.0


def point_digest(data: bytes) -> bytes:
    """Of a point's float64 bytes, little-endian."""
    return _labelled(b"parley point 1", data)


def query_digest(
    manifest_digest: bytes,
    index: int,
    kind: str,
    scale: float,
    points: Sequence[bytes],
    length: int,
    local: LocalFit | None = None,
) -> bytes:
    """Of a round's question; `points` are digests."""
    parts = [manifest_digest, struct.pack("<qdqq", index, scale, length, len(points)), kind.encode(), *points]
    if local is not None:
        parts += [local.method.encode(), struct.pack("<qddd", local.steps, local.step, local.strength, local.reach)]
    return _hash(b"parley query 1", parts)


COMMITMENTS = (b"parley share a 1", b"parley share b 1")
"""Labels of what commits to each half: A's is the blind and the packed numbers, B's is the seed."""


def commitment_a(payload: bytes | bytearray) -> bytes:
    """To server A's half."""
    return _labelled(COMMITMENTS[0], payload)


def commitment_b(payload: bytes | bytearray) -> bytes:
    """To server B's half."""
    return _labelled(COMMITMENTS[1], payload)


def upload_digest(
    manifest_digest: bytes, index: int, party: str, query: bytes, commitment_to_a: bytes, commitment_to_b: bytes
) -> bytes:
    """Of one party's contribution to one round; `party` is its URI."""
    parts = [manifest_digest, struct.pack("<q", index), party.encode(), query, commitment_to_a, commitment_to_b]
    return _hash(b"parley upload 1", parts)


def payload_bytes(role: int, length: int, bits: int) -> int:
    """What a server expects of so many numbers of so many bits: role 0 is A, 1 is B."""
    return BLIND_BYTES + packed_bytes(length, bits) if role == 0 else SEED_BYTES


def half_a(blind: bytes, words: Words, bits: int) -> bytes:
    """Server A's half of numbers as wide as they travel."""
    made = bytearray(payload_bytes(0, len(words), bits))
    made[:BLIND_BYTES] = blind
    pack(words, bits, memoryview(made)[BLIND_BYTES:])
    return bytes(made)


def numbers_in(half: bytes, length: int, bits: int) -> Words:
    """The numbers of server A's half."""
    return unpack(memoryview(half)[BLIND_BYTES:], bits, length)


def _labelled(label: bytes, data: bytes | bytearray) -> bytes:
    """Without a copy of the data."""
    digest = hashlib.sha256(label)
    digest.update(data)
    return digest.digest()


def _hash(label: bytes, parts: Sequence[bytes]) -> bytes:
    digest = hashlib.sha256(label)
    for part in parts:
        digest.update(struct.pack("<q", len(part)) + part)
    return digest.digest()
