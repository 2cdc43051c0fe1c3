"""A backup's encryption: X25519 to the operator's key, HKDF-SHA256, then ChaCha20-Poly1305 in chunks.

    b"parley backup 1\\n", 32 bytes of a public key that was drawn for this file, then the chunks

Each chunk has 64 KiB, the last one 0 to 64 KiB, and its tag. A nonce is the chunk's number and one byte that is 1 for
the last: no chunk can be changed, exchanged, left out or added, and a file that was cut short is noticed (as in age and
in Rogaway's STREAM). Whoever has no key of the operator learns the file's length and nothing else.

Everybody can encrypt to a public key: who has made a backup, the signature within it says (`parley.node.backup`).
"""

import io
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from parley.node.backup_key import KEY_BYTES, BackupError

MAGIC = b"parley backup 1\n"
CHUNK_BYTES, TAG_BYTES = 1 << 16, 16


def _cipher(shared: bytes, drawn: bytes, to: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(HKDF(SHA256(), KEY_BYTES, drawn + to, MAGIC).derive(shared))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


class Encrypting(io.RawIOBase):
    """Write a backup into it, then `finish`; a file that was not finished cannot be opened."""

    def __init__(self, file: BinaryIO, to: X25519PublicKey) -> None:
        self._file, self._held, self._number = file, bytearray(), 0
        drawn = X25519PrivateKey.generate()
        public = drawn.public_key().public_bytes_raw()
        try:
            shared = drawn.exchange(to)
        except ValueError:
            raise BackupError("--to is a key to which nothing can be encrypted: make another") from None
        self._cipher = _cipher(shared, public, to.public_bytes_raw())
        file.write(MAGIC + public)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = memoryview(data).tobytes()  # type: ignore[arg-type]
        self._held += piece
        while len(self._held) > CHUNK_BYTES:  # one is always held back: it may be the last
            self._put(bytes(self._held[:CHUNK_BYTES]), False)
            del self._held[:CHUNK_BYTES]
        return len(piece)

    def finish(self) -> None:
        self._put(bytes(self._held), True)
        self._held.clear()

    def _put(self, chunk: bytes, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last), chunk, None))
        self._number += 1


class Decrypting(io.RawIOBase):
    """Reads what `Encrypting` wrote; a BackupError at the first chunk that is not what was written."""

    def __init__(self, file: BinaryIO, key: X25519PrivateKey) -> None:
        head = file.read(len(MAGIC) + KEY_BYTES)
        drawn = head[len(MAGIC) :]
        if not head.startswith(MAGIC) or len(drawn) != KEY_BYTES:
            raise BackupError("this is no backup that this version reads: give the file that `parley backup` wrote")
        try:
            shared = key.exchange(X25519PublicKey.from_public_bytes(drawn))
        except ValueError:
            raise BackupError("the backup is damaged: take another one") from None
        self._cipher = _cipher(shared, drawn, key.public_key().public_bytes_raw())
        self._file, self._number, self._done, self._held = file, 0, False, b""
        self._next = file.read(CHUNK_BYTES + TAG_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._held and not self._done:
            self._take()
        count = min(len(view), len(self._held))
        view[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def drain(self) -> None:
        """To the end, which has to be the writer's."""
        while self.read(CHUNK_BYTES):
            pass

    def _take(self) -> None:
        chunk, self._next = self._next, self._file.read(CHUNK_BYTES + TAG_BYTES)
        last = not self._next
        try:
            self._held = self._cipher.decrypt(_nonce(self._number, last), chunk, None)
        except InvalidTag:
            where = "its key is another one" if self._number == 0 else "it was cut short or changed"
            raise BackupError(f"the backup cannot be opened: {where}, or it is damaged") from None
        self._number, self._done = self._number + 1, last
