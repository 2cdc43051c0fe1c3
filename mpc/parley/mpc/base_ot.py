"""Base oblivious transfers: Masny and Rindal's protocol on the prime-order subgroup of edwards25519.

Both servers are sender of 128 transfers and receiver of 128, at once, in one exchange of 12,288 bytes each way. For
each transfer the sender has a scalar y of its own and sends S = yG. A receiver of bit c sends two points: the one for
1 - c is random, and the one for c is r_c = xG - H_c(r_{1-c}), H_0 and H_1 random oracles into the group. The sender's
key of bit j is y (r_j + H_j(r_{1-j})), the receiver's xS. Whatever a receiver sends, it knows a scalar for one of the
two sums only, because either point fixes the oracle's part of the other: so its bit can be extracted, which the
extension needs against a receiver that lies.

Each party can choose the keys that it gets itself, no more ("endemic" transfers); Roy's extension asks for no more than
that. Oracles and keys are hashed with the session, the direction, the index and the bit; every point from outside is
checked to be in the prime-order subgroup and not the identity.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from parley.mpc import group
from parley.mpc.group import POINT_BYTES, WIDE_BYTES
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Bytes, Steps

COUNT = 128
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


@dataclass(frozen=True)
class _Place:
    """Of one transfer in one direction: nothing is hashed without it."""

    session: bytes
    sender: int
    index: int

    def oracle(self, bit: int, other: bytes) -> bytes:
        """H_bit of the point for the other bit."""
        return group.hashed(b"parley base oracle v2" + self.session + bytes([self.sender, self.index, bit]) + other)

    def key(self, bit: int, points: tuple[bytes, bytes, bytes], shared: bytes) -> Bytes:
        """`points`: the sender's, then the receiver's two."""
        text = b"parley base transfer v2" + self.session + bytes([self.sender, self.index, bit])
        digest = hashlib.sha256(text + b"".join(points) + shared).digest()
        return np.frombuffer(digest[:KEY_BYTES], np.uint8)


def transfer(role: int, session: bytes, rng: Csprng) -> Steps[BaseTransfers]:
    """128 random transfers in each direction; `role` 0 or 1."""
    choices = rng.bits(COUNT)
    secrets, points = [], []
    for index in range(COUNT):
        place = _Place(session, 1 - role, index)
        y, x, unknown = (group.scalar(rng.bytes(WIDE_BYTES)) for _ in range(3))
        bit = int(choices[index])
        other = group.base(unknown)
        chosen = group.minus(group.base(x), place.oracle(bit, other))
        secrets.append((y, x))
        points.append((group.base(y), *((other, chosen) if bit else (chosen, other))))
    mine = b"".join(b"".join(three) for three in points)
    (answer,) = yield [np.frombuffer(mine, np.uint8)]
    theirs = [bytes(point) for point in answer.reshape(3 * COUNT, POINT_BYTES)]

    sent = np.empty((COUNT, 2, KEY_BYTES), np.uint8)
    received = np.empty((COUNT, KEY_BYTES), np.uint8)
    for index in range(COUNT):
        y, x = secrets[index]
        their_s, first, second = (group.checked(point) for point in theirs[3 * index : 3 * index + 3])
        my_s, *pair = points[index]
        bit = int(choices[index])
        place = _Place(session, 1 - role, index)
        received[index] = place.key(bit, (their_s, pair[0], pair[1]), group.multiply(x, their_s))
        place = _Place(session, role, index)
        for bit, point, other in ((0, first, second), (1, second, first)):
            shared = group.multiply(y, group.plus(point, place.oracle(bit, other)))
            sent[index, bit] = place.key(bit, (my_s, first, second), shared)
    return BaseTransfers(sent, choices, received)
