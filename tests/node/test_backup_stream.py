"""A backup's encryption: what was written comes back, and whatever was done to it on the way is noticed."""

import io
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from parley.node.backup_key import BackupError
from parley.node.backup_stream import CHUNK_BYTES, MAGIC, TAG_BYTES, Decrypting, Encrypting

KEY = X25519PrivateKey.generate()
HEAD = len(MAGIC) + 32
CHUNK = CHUNK_BYTES + TAG_BYTES


def encrypted(data: bytes, piece: int = 10_000) -> bytes:
    out = io.BytesIO()
    sink = Encrypting(out, KEY.public_key())
    for start in range(0, len(data), piece):
        sink.write(data[start : start + piece])
    sink.finish()
    return out.getvalue()


def decrypted(data: bytes, key: X25519PrivateKey = KEY) -> bytes:
    return io.BufferedReader(Decrypting(io.BytesIO(data), key)).read()


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_what_was_written_comes_back(size: int) -> None:
    data = os.urandom(size)
    assert decrypted(encrypted(data)) == data


def test_one_content_is_never_encrypted_alike() -> None:
    assert encrypted(b"same")[len(MAGIC) :] != encrypted(b"same")[len(MAGIC) :]


def test_another_key_opens_nothing() -> None:
    with pytest.raises(BackupError, match="key is another one"):
        decrypted(encrypted(b"secret"), X25519PrivateKey.generate())


WHOLE = encrypted(b"x" * (2 * CHUNK_BYTES + 5))
CHANGED = {
    "cut within a chunk": WHOLE[:-1],
    "cut between chunks": WHOLE[: HEAD + 2 * CHUNK],
    "cut to nothing": WHOLE[:HEAD],
    "a chunk left out": WHOLE[:HEAD] + WHOLE[HEAD + CHUNK :],
    "chunks exchanged": WHOLE[:HEAD] + WHOLE[HEAD + CHUNK : HEAD + 2 * CHUNK] + WHOLE[HEAD : HEAD + CHUNK]
    + WHOLE[HEAD + 2 * CHUNK :],
    "something added": WHOLE + b"more",
    "a bit turned": WHOLE[: HEAD + 7] + bytes([WHOLE[HEAD + 7] ^ 1]) + WHOLE[HEAD + 8 :],
    "another sender's key": WHOLE[: len(MAGIC)] + KEY.public_key().public_bytes_raw() + WHOLE[HEAD:],
    "no sender's key": WHOLE[: len(MAGIC)] + bytes(32) + WHOLE[HEAD:],
    "another form": b"parley backup 9\n" + WHOLE[len(MAGIC) :],
    "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("how", CHANGED)
def test_what_was_changed_is_not_opened(how: str) -> None:
    with pytest.raises(BackupError):
        decrypted(CHANGED[how])


def test_nothing_is_encrypted_to_a_key_that_shares_no_secret() -> None:
    with pytest.raises(BackupError, match="make another"):
        Encrypting(io.BytesIO(), X25519PublicKey.from_public_bytes(bytes(32)))
