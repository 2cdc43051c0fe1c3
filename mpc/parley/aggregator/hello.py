"""What the two servers of an opening say first: each what it keeps, and what it has."""

import hashlib
import struct
from dataclasses import dataclass, fields

import numpy as np

from parley.aggregator.opening_store import Phase
from parley.mpc.errors import FrameError
from parley.mpc.steps import Steps

HELLO = struct.Struct("<B16s?32sB16s16sIQQ")
"""Role, random bytes, whether only to settle, request digest, phase, opening, noise epoch, number of contributions, own
commits, the other's commits as seen."""
MOST_CONTRIBUTIONS = 1 << 20
MOST_COMMITS = 1 << 32
"""Of one run; the wire's rounds are 32 bits. SQLite could not hold all that a hello can say."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """What one server says first."""

    role: int
    nonce: bytes
    settling: bool
    request_digest: bytes
    phase: Phase
    opening: bytes
    epoch: bytes
    count: int
    mine: int
    seen: int

    def packed(self) -> bytes:
        return HELLO.pack(*vars(self).values())

    @classmethod
    def read(cls, data: bytes) -> "Hello":
        said = dict(zip((each.name for each in fields(cls)), HELLO.unpack(data), strict=True))
        if said["phase"] not in set(Phase):
            raise FrameError(f"the other server claims phase {said['phase']}, which there is not")
        found = cls(**{**said, "phase": Phase(said["phase"])})
        if max(found.mine, found.seen) > MOST_COMMITS:
            raise FrameError("the other server claims more commits than there are rounds")
        return found


def greet(mine: Hello) -> Steps[tuple[Hello, bytes]]:
    """What the other says, and a fresh id for this conversation, from both servers, who must have different roles."""
    sent = mine.packed()
    (answer,) = yield [np.frombuffer(sent, np.uint8)]
    got = answer.tobytes()
    theirs = Hello.read(got)
    if theirs.role != 1 - mine.role:
        raise FrameError(f"both ends of the conversation claim role {mine.role}: one must be 0 (A), the other 1 (B)")
    if theirs.settling != mine.settling:
        raise FrameError("one server wants to open and the other to settle: try again")
    if theirs.count > MOST_CONTRIBUTIONS:
        raise FrameError("more than a million contributions announced")
    ordered = (sent + got) if mine.role == 0 else (got + sent)
    return theirs, hashlib.sha256(b"parley opening conversation v4" + ordered).digest()[:16]
