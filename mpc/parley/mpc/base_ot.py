"""Base oblivious transfers: Chou and Orlandi's protocol on the prime-order subgroup of edwards25519 (libsodium).

Both servers are sender of 128 transfers and receiver of 128, at once: two exchanges, 4,128 bytes each way. Sender:
S = y B. Receiver of bit c_i: R_i = x_i B + c_i S, key x_i S. Sender's keys: y R_i and y (R_i - S). Keys are hashed with
the session, the direction, the index and both points; every point from outside is checked to be in the prime-order
subgroup and not the identity.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from nacl import bindings as sodium

from parley.mpc.errors import InvalidPointError
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Bytes, Steps

COUNT = 128
POINT_BYTES = 32
KEY_BYTES = 16


@dataclass(frozen=True)
class BaseTransfers:
    """Keys of both directions."""

    sent: Bytes
    """uint8[128, 2, 16]: both keys of each transfer this server sent."""
    choices: Bytes
    """uint8[128]: the bits this server chose as receiver."""
    received: Bytes
    """uint8[128, 16]: the keys it got for them."""


def _checked(point: bytes) -> bytes:
    if not sodium.crypto_core_ed25519_is_valid_point(point):
        raise InvalidPointError("a base transfer's point is not in the prime-order group")
    return point


def _scalar(rng: Csprng) -> bytes:
    return sodium.crypto_core_ed25519_scalar_reduce(rng.bytes(64))


def _multiply(scalar: bytes, point: bytes) -> bytes:
    try:
        return sodium.crypto_scalarmult_ed25519_noclamp(scalar, point)
    except RuntimeError:  # the identity: R_i = S, which no honest receiver sends
        raise InvalidPointError("a base transfer's point gives the identity") from None


def _key(session: bytes, sender: int, index: int, s: bytes, r: bytes, shared: bytes) -> bytes:
    text = b"parley base transfer v1" + session + bytes([sender, index]) + s + r + shared
    return hashlib.sha256(text).digest()[:KEY_BYTES]


def transfer(role: int, session: bytes, rng: Csprng) -> Steps[BaseTransfers]:
    """128 random transfers in each direction; `role` 0 or 1."""
    y = _scalar(rng)
    my_s = sodium.crypto_scalarmult_ed25519_base_noclamp(y)
    (answer,) = yield [np.frombuffer(my_s, np.uint8)]
    their_s = _checked(answer.tobytes())

    choices = rng.bits(COUNT)
    scalars = [_scalar(rng) for _ in range(COUNT)]
    mine = []
    for x, choice in zip(scalars, choices, strict=True):
        point = sodium.crypto_scalarmult_ed25519_base_noclamp(x)
        shifted = sodium.crypto_core_ed25519_add(point, their_s)
        mine.append(shifted if choice else point)  # both are computed, whatever the bit
    (answer,) = yield [np.frombuffer(b"".join(mine), np.uint8)]
    theirs = [_checked(bytes(point)) for point in answer.reshape(COUNT, POINT_BYTES)]

    sent = np.empty((COUNT, 2, KEY_BYTES), np.uint8)
    received = np.empty((COUNT, KEY_BYTES), np.uint8)
    for i in range(COUNT):
        shared = _multiply(scalars[i], their_s)
        received[i] = np.frombuffer(_key(session, 1 - role, i, their_s, mine[i], shared), np.uint8)
        for bit in (0, 1):
            r = sodium.crypto_core_ed25519_sub(theirs[i], my_s) if bit else theirs[i]
            key = _key(session, role, i, my_s, theirs[i], _multiply(y, r))
            sent[i, bit] = np.frombuffer(key, np.uint8)
    return BaseTransfers(sent, choices, received)
