"""The streams of one pool between the two servers: how many workers there are, and which stream is whose.

Both servers have to mean the same, so they say so before any session begins. On the first stream (`agree`):

    1      hello: role, 32 random bytes
    2 - 6  five empty exchanges, to measure the line
    7      how long each of them took here. Both servers' times of one exchange make a round trip, whoever was late
    8      how many workers this server would have: the smaller number is taken

Every further stream says first which worker's it is, and of which crew (`join`); and the session over each is bound to
both (`Crew.place`), so that one stream never passes for another one, nor for one of an earlier crew. Nothing of this is
secret. A server from before has none of it: it gets one worker, and a session that is bound to nothing but its hellos.
"""

import hashlib
import struct
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from parley.mpc.channel import Link
from parley.mpc.errors import FrameError
from parley.mpc.randomness import random_bytes
from parley.mpc.steps import Steps
from parley.node.node_file import MOST_WORKERS

MAGIC = b"parley.workers.1"
HELLO = struct.Struct("<16sB32s")
JOIN = struct.Struct("<16sBBB32s")
"""Magic, role, workers, which one, crew."""
PINGS = 5
TIMES = struct.Struct(f"<{PINGS}I")
LONGEST = (1 << 32) - 1
"""Of an exchange, in microseconds."""


@dataclass(frozen=True)
class Crew:
    """What both servers have agreed on."""

    workers: int
    id: bytes = b""
    """32 bytes that both have a part in; nothing where the other server knows of no workers."""
    round_trip: float = 0.0
    """In seconds, as it was measured."""

    def place(self, number: int) -> bytes:
        """Of a worker: what its session is bound to."""
        if not self.id:
            return b""
        return hashlib.sha256(b"parley noise worker v1" + self.id + bytes([self.workers, number])).digest()


class Wanted(Protocol):
    """How many workers a server would have on a line with this round trip, in seconds."""

    def __call__(self, round_trip: float, /) -> int: ...


def knows_workers(link: Link, deadline: float) -> bool:
    """Whether the other end of this stream does: gRPC's metadata say so before any frame."""
    ask = getattr(link, "knows_workers", None)
    return ask is not None and bool(ask(deadline))


def agree(role: int, wanted: Wanted) -> Steps[Crew]:
    """On the first stream."""
    mine = HELLO.pack(MAGIC, role, random_bytes(32))
    theirs = yield from _swap(mine)
    magic, their_role, _ = HELLO.unpack(theirs)
    if magic != MAGIC:
        raise FrameError("the other server counts workers in a way that this version does not know")
    if their_role != 1 - role:
        raise FrameError(f"both servers claim role {role}: one must be 0 (A), the other 1 (B)")
    took = []
    for _ in range(PINGS):
        started = time.monotonic()
        yield [np.zeros(1, np.uint8)]
        took.append(min(int((time.monotonic() - started) * 1e6), LONGEST))
    answer = TIMES.unpack((yield from _swap(TIMES.pack(*took))))
    round_trip = min(here + there for here, there in zip(took, answer, strict=True)) / 1e6
    offer = bytes([wanted(round_trip)])
    their_offer = yield from _swap(offer)
    workers = min(offer[0], their_offer[0])
    if not 1 <= workers <= their_offer[0] <= MOST_WORKERS:
        raise FrameError(f"the other server offers {their_offer[0]} workers: 1 to {MOST_WORKERS} are possible")
    said = [mine + offer, theirs + their_offer]
    made = hashlib.sha256(b"parley noise workers v1" + b"".join(said if role == 0 else said[::-1])).digest()
    return Crew(workers, made, round_trip)


def join(role: int, crew: Crew, number: int) -> Steps[None]:
    """On every further one."""
    theirs = yield from _swap(JOIN.pack(MAGIC, role, crew.workers, number, crew.id))
    if theirs != JOIN.pack(MAGIC, 1 - role, crew.workers, number, crew.id):
        raise FrameError(f"the stream of worker {number} is another one to the other server")


def _swap(data: bytes) -> Steps[bytes]:
    (answer,) = yield [np.frombuffer(data, np.uint8)]
    return answer.tobytes()
