"""The one source of random bits in this folder: AES-256 in counter mode, keyed by the operating system's entropy; for
what is as short as a key, that entropy itself.

Every protocol takes a `Csprng`, so that a test can replay a transcript from a seed. In production it is made by
`Csprng.from_system()` in the very call that opens a session, and never stored.
"""

import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

SEED_BYTES = 32
ZEROS = memoryview(bytes(1 << 18))
"""What a stream is made of: the cipher adds its own."""
SPARE_WORDS = 2
"""Room that `update_into` asks for beyond what it writes: a block."""


def random_bytes(count: int) -> bytes:
    """A few bytes from the operating system itself: seeds, keys, nonces."""
    return os.urandom(count)


class Csprng:
    """A stream of random bytes. Two objects with one seed give the same stream: a seed is used once."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes, this one {len(seed)}")
        self._stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()

    @classmethod
    def from_system(cls) -> "Csprng":
        """Seeded by the operating system, now."""
        return cls(random_bytes(SEED_BYTES))

    def bytes(self, count: int) -> bytes:
        return self._stream.update(bytes(count))

    def octets(self, *shape: int) -> NDArray[np.uint8]:
        """Uniform bytes."""
        return np.frombuffer(self.bytes(int(np.prod(shape))), np.uint8).reshape(shape).copy()

    def words(self, *shape: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, in the only memory that is touched for them."""
        count = int(np.prod(shape))
        room = np.empty(count + SPARE_WORDS, "<u8")
        octets = room.data.cast("B")
        for start in range(0, 8 * count, len(ZEROS)):
            size = min(len(ZEROS), 8 * count - start)
            self._stream.update_into(ZEROS[:size], octets[start:])
        return room[:count].astype(np.uint64, copy=False).reshape(shape)

    def bits(self, *shape: int) -> NDArray[np.uint8]:
        """Uniform bits, a byte each."""
        count = int(np.prod(shape))
        return np.unpackbits(self.octets((count + 7) // 8), count=count, bitorder="little").reshape(shape)
