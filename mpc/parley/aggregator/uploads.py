"""One party's upload to this server, piece by piece.

Its bytes are hashed as they come, and of server A's half only the numbers are kept, in memory or in the spool; added
they are when both servers have agreed on the set, one after another, so that no sum of another set ever exists.
"""

import asyncio
import hashlib
import threading

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.opening import Contributions
from parley.aggregator.opening_store import RefusedError
from parley.aggregator.refusals import CallWaitsError, malformed
from parley.aggregator.spool import Room
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import (
    BLIND_BYTES,
    COMMITMENTS,
    DIGEST_BYTES,
    PIECE_BYTES,
    payload_bytes,
    upload_digest,
)
from parley.mpc.errors import RangeError
from parley.mpc.packing import BLOCK_WORDS, add_packed, count_in, require_one_form
from parley.mpc.randomness import SEED_BYTES
from parley.node.relay import KEY_BYTES, SEALED_BYTES
from parley.v1 import aggregator_pb2 as wire

ON_THE_LOOP_BYTES = 1 << 18
"""Of a piece that is taken without a thread: a fraction of a millisecond."""
Rejection = wire.UploadResponse.Rejection
DIGEST, CONTRADICTION = Rejection.REJECTION_DIGEST, Rejection.REJECTION_CONTRADICTION


def check_form(request: wire.UploadRequest, role: int) -> None:
    """What holds for every piece of every run. A key for server B never rests on A, nor a sealed half on B."""
    fields = {"relay_key": (1, KEY_BYTES), "relayed": (0, SEALED_BYTES)}
    for name, (whose, size) in fields.items():
        if (found := len(getattr(request, name))) and (role, found) != (whose, size):
            raise malformed(f"{name} of {found} bytes on server {'AB'[role]}", f"send {size} to {'AB'[whose]} or none")
    for name in ("query_digest", "commitment_a", "commitment_b"):
        if len(getattr(request, name)) != DIGEST_BYTES:
            raise malformed(f"{name} has {len(getattr(request, name))} bytes", f"send {DIGEST_BYTES}")
    if not 0 < len(request.data) <= PIECE_BYTES:
        raise malformed(f"a piece of {len(request.data)} bytes", f"send 1 to {PIECE_BYTES}")
    if request.offset + len(request.data) > request.size:
        raise malformed(f"a piece that ends after byte {request.size}", "cut the payload as its size says")


class Upload:
    """The first word of a party for one round stands."""

    def __init__(self, manifest: Manifest, role: int, party: str, request: wire.UploadRequest, room: Room) -> None:
        self.party, self.query, self.size = party, request.query_digest, request.size
        self._bits = manifest.share_bits
        self._numbers = _numbers(request.size, role, manifest.longest_answer, self._bits)
        self._words = (request.query_digest, request.commitment_a, request.commitment_b)
        uri = NodeName(manifest.federation, Role.party, party).uri
        self.digest = upload_digest(manifest.digest, request.round, uri, *self._words)
        """What identifies a contribution, on both servers alike."""
        self._relayed = request.relayed
        self._role, self._commitment = role, self._words[1 + role]
        self._hash = hashlib.sha256(COMMITMENTS[role])
        self._blind = BLIND_BYTES if role == 0 else 0
        """Bytes that are committed to and not kept."""
        self._store = room.store(self.size - self._blind, self._bits)
        self._turn = asyncio.Lock()
        self._guard = threading.Lock()
        """Between the loop and workers, of whom one takes what comes and another one adds it up."""
        self._taking: asyncio.Future[None] | None = None
        self._erased = False
        self.received = 0
        self.complete = False
        self.in_time = False
        """It was whole while it could still come into the sum: this server gives a receipt for it."""
        self.receipt = b""

    @property
    def sealed(self) -> wire.RelayedHalf | None:
        """Server B's half, to be passed on."""
        if not self._relayed:
            return None
        query, to_a, to_b = self._words
        return wire.RelayedHalf(
            party=self.party, query_digest=query, commitment_a=to_a, commitment_b=to_b, sealed=self._relayed
        )

    def fits(self, query: bytes, length: int) -> bool:
        """Whether it answers the question that turned out to be the round's."""
        return self.query == query and self.size == payload_bytes(self._role, length, self._bits)

    async def add(self, request: wire.UploadRequest) -> wire.UploadResponse:
        """A piece; one that does not follow on what is here changes nothing, and the answer says where to go on."""
        words = (request.query_digest, request.commitment_a, request.commitment_b)
        if words != self._words or request.size != self.size:
            return wire.UploadResponse(received=self.received, rejection=CONTRADICTION)
        async with self._turn:  # whoever sends more meanwhile waits
            await self._taken()
            end = request.offset + len(request.data)
            if not self.complete and request.offset <= self.received < end:
                self._require_one_form(request)
                await self._take(memoryview(request.data)[self.received - request.offset :])
            if self.received == self.size and not (self.complete or self._erased):
                self.complete = self._hash.digest() == self._commitment
                if not self.complete:  # not what was committed to: it may be sent again
                    self._restart()
                    return wire.UploadResponse(received=0, rejection=DIGEST)
        return wire.UploadResponse(received=self.received, complete=self.complete)

    def _require_one_form(self, request: wire.UploadRequest) -> None:
        """Before anything of a last piece is taken."""
        if self._role == 0 and request.offset + len(request.data) == self.size:
            try:
                require_one_form(request.data[-1], self._numbers, self._bits)
            except RangeError as error:
                raise malformed("a payload", str(error)) from None

    async def _take(self, data: memoryview) -> None:
        if self._store.on_disk or len(data) > ON_THE_LOOP_BYTES:
            self._taking = asyncio.get_running_loop().run_in_executor(None, self._append, data)
            await self._taken()
        else:
            self._append(data)

    async def _taken(self) -> None:
        """Once a worker is done, whose call may have been given up."""
        try:
            if self._taking is not None:
                await asyncio.shield(self._taking)
        except CallWaitsError:  # the disk is full: all of it comes again
            self._taking = None
            self._restart()
            raise
        self._taking = None

    def _append(self, data: memoryview) -> None:
        with self._guard:
            if not self._erased:
                self._hash.update(data)
                self._store.append(data[max(0, self._blind - self.received) :])
                self.received += len(data)

    def _restart(self) -> None:
        with self._guard:
            if not self._erased:
                self._store.restart()
            self._hash = hashlib.sha256(COMMITMENTS[self._role])
            self.received, self.complete = 0, False

    def add_to(self, contributions: Contributions) -> None:
        """This server's share; the numbers stay where they are, and are erased there."""
        contributions.add(self.party, self.digest, self._add if self._role == 0 else bytes(self._store.block(0)))

    def _add(self, total: NDArray[np.uint64]) -> None:
        """By a worker, one block after another."""
        if len(total) != self._numbers:
            raise RefusedError(f"{self.party}: a share of {len(total)} numbers was due, here are {self._numbers}")
        try:
            for place, start in enumerate(range(0, len(total), BLOCK_WORDS)):
                with self._guard:
                    if not self.complete:
                        raise RefusedError(f"{self.party}: its share is not here any more")
                    add_packed(total[start : start + BLOCK_WORDS], self._store.block(place), self._bits)
        except CallWaitsError:  # a block is lost: it is asked for again
            self._restart()
            raise

    def erase(self) -> None:
        """Overwrite, and give the room back."""
        with self._guard:
            self.complete, self._erased = False, True
            self._store.erase()


def _numbers(size: int, role: int, longest_answer: int, bits: int) -> int:
    """In a payload of this size; one that no answer of the run has is refused. Server B's halves have one size."""
    if role == 1:
        if size != SEED_BYTES:
            raise malformed(f"a payload of {size} bytes", f"send server B {SEED_BYTES} bytes, the seed")
        return 0
    count = count_in(size - BLIND_BYTES, bits) if size > BLIND_BYTES else None
    if count is None or not 1 <= count <= longest_answer:
        raise malformed(
            f"a payload of {size} bytes",
            f"send server A {BLIND_BYTES} random bytes and 1 to {longest_answer} numbers of {bits} bits, packed",
        )
    return count
