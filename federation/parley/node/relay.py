"""Halves for server B that come through server A, sealed by their party: one call of a party in a round, not two.

A party gives B a key with a half that it uploads itself, over its own authenticated call. Until KEY_SECONDS later it
may send B's further halves to A, beside A's own, each sealed to its upload's digest: to this run, round, party,
question and both commitments. A hands them over when it opens the round. A learns nothing of them and can make none
up; what it keeps back, or what does not open, is as if it had not come: B says that the party is missing, and the
party, asked again, uploads to B itself with a new key.

Every round has a key of its own, the hash of the one before, and both ends forget a key when its round is over: who
reads B's memory later, and has what A saw, opens no round that was opened before. Keys are in memory only.
"""

import hashlib
import time
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parley.mpc.randomness import SEED_BYTES

KEY_BYTES: Final = 32
KEY_SECONDS: Final = 600.0
NONCE_BYTES: Final = 12
SEALED_BYTES: Final = NONCE_BYTES + SEED_BYTES + 16


def seal(key: bytes, upload_digest: bytes, half: bytes, nonce: bytes) -> bytes:
    """B's half, for B alone; `nonce` is fresh randomness."""
    return nonce + AESGCM(key).encrypt(nonce, half, upload_digest)


@dataclass
class RoundKey:
    """The key of one round, and by hashing of those after it."""

    round_index: int
    key: bytes = field(repr=False)

    def advance(self, round_index: int) -> bytes:
        """The key of that round, for which all before it are forgotten."""
        for _ in range(round_index - self.round_index):
            self.key = hashlib.sha256(b"parley relay key 1" + self.key).digest()
        self.round_index = max(self.round_index, round_index)
        return self.key


class Keys:
    """What the parties of one run have given server B."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[RoundKey, float]] = {}

    def hold(self, party: str, round_index: int, key: bytes) -> None:
        """For the rounds after this one, instead of the one before."""
        given = RoundKey(round_index, key)
        given.advance(round_index + 1)
        self._held[party] = given, time.monotonic() + KEY_SECONDS

    def holds(self, party: str) -> bool:
        """Whether a half of this party may come through server A."""
        held = self._held.get(party)
        return held is not None and time.monotonic() < held[1]

    def open(self, party: str, round_index: int, upload_digest: bytes, sealed: bytes) -> bytes | None:
        """The half; None, and no key any more, where it cannot be had so."""
        if not self.holds(party):
            return None
        held = self._held[party][0]
        try:
            if round_index < held.round_index:
                return None
            key = RoundKey(held.round_index, held.key).advance(round_index)
            return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], upload_digest)
        except (InvalidTag, ValueError):
            del self._held[party]
            return None

    def forget_before(self, round_index: int) -> None:
        """Of rounds that are over, and of parties whose time is."""
        self._held = {party: held for party, held in self._held.items() if self.holds(party)}
        for key, _ in self._held.values():
            key.advance(round_index)

    def clear(self) -> None:
        self._held.clear()
