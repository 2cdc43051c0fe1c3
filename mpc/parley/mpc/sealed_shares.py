"""Opening a shared secret so that nobody chooses his share after having seen the other's: seals first, then shares.

Both servers' frames of an exchange cross, but a server that waits sees the other's before it speaks. So each first
sends a hash of its share and a fresh salt, and opens it once both hashes are there. The role is in the hash: a server
that returns the other's seal cannot open it.
"""

import hashlib
import hmac

import numpy as np

from parley.mpc.errors import SealBrokenError
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Bytes, Steps

SALT_BYTES = 32


def exchanged(role: int, share: Bytes, rng: Csprng) -> Steps[Bytes]:
    """The other server's share, which it had chosen before it saw this one. Two exchanges."""
    salt = rng.octets(SALT_BYTES)
    (sealed,) = yield [np.frombuffer(seal(role, salt, share), np.uint8)]
    their_salt, theirs = yield [salt, share]
    if not matches(sealed, seal(1 - role, their_salt, theirs)):
        raise SealBrokenError("the other server opened an accept share that it had not sealed: it did not follow the "
                              "noise protocol")  # fmt: skip
    return theirs


def matches(sealed: Bytes, opened: bytes) -> bool:
    """Whether what was opened is what was sealed."""
    return hmac.compare_digest(sealed.tobytes(), opened)


def seal(role: int, salt: Bytes, share: Bytes) -> bytes:
    return hashlib.sha256(b"parley accept seal v1" + bytes([role]) + salt.tobytes() + share.tobytes()).digest()
