"""Halves for server B that come through server A, sealed by their party: one call of a party in a round, not two.

A party gives B a key with a half that it uploads itself, over its own authenticated call. Until KEY_SECONDS later it
may send B's further halves to A, beside A's own, each sealed under that key to its upload's digest: to this run, round,
party, question and both commitments. A hands them over when it opens the round. A learns nothing of them and can make
none up; what it keeps back, or what does not open, is as if it had not come: B says that the party is missing, and the
party, asked again, uploads to B itself with a new key. Keys are in memory only.
"""

import time
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mpc.service.terms import DIGEST_BYTES

KEY_BYTES: Final = 32
KEY_SECONDS: Final = 600.0
NONCE_BYTES: Final = 12
SEALED_BYTES: Final = NONCE_BYTES + DIGEST_BYTES + 16


def seal(key: bytes, upload_digest: bytes, half: bytes, nonce: bytes) -> bytes:
    """B's half, for B alone; `nonce` is fresh randomness."""
    return nonce + AESGCM(key).encrypt(nonce, half, upload_digest)


class Keys:
    """What the parties of one run have given server B."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[AESGCM, float]] = {}

    def hold(self, party: str, key: bytes) -> None:
        """From now on, instead of the one before."""
        self._held[party] = AESGCM(key), time.monotonic() + KEY_SECONDS

    def holds(self, party: str) -> bool:
        """Whether a half of this party may come through server A."""
        held = self._held.get(party)
        return held is not None and time.monotonic() < held[1]

    def open(self, party: str, upload_digest: bytes, sealed: bytes) -> bytes | None:
        """The half; None, and no key any more, where it cannot be had so."""
        if not self.holds(party):
            return None
        try:
            return self._held[party][0].decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], upload_digest)
        except (InvalidTag, ValueError):
            del self._held[party]
            return None

    def clear(self) -> None:
        self._held.clear()
