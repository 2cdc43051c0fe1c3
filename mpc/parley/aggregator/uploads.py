"""One party's upload to this server, piece by piece, in memory only: the store of shares."""

import asyncio

import numpy as np

from parley.aggregator.opening import Contributions
from parley.aggregator.refusals import CallWaitsError, malformed
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import (
    BLIND_BYTES,
    DIGEST_BYTES,
    PIECE_BYTES,
    commitment_a,
    commitment_b,
    payload_bytes,
    upload_digest,
)
from parley.mpc.randomness import SEED_BYTES
from parley.node.relay import KEY_BYTES, SEALED_BYTES
from parley.v1 import aggregator_pb2 as wire

ON_THE_LOOP_BYTES = 1 << 18
"""What is hashed without a thread: a fraction of a millisecond."""
Rejection = wire.UploadResponse.Rejection
DIGEST, CONTRADICTION = Rejection.REJECTION_DIGEST, Rejection.REJECTION_CONTRADICTION


class Memory:
    """Bytes that uploads may take on this server, over all runs."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self.held = most_bytes, 0

    def take(self, size: int) -> None:
        """Reserve, or have the party come again when rounds were opened."""
        if self.held + size > self._most:
            raise CallWaitsError(
                f"uploads take {self.held:,} of {self._most:,} bytes on this server", "wait for rounds to be opened"
            )
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size


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

    def __init__(self, manifest: Manifest, role: int, party: str, request: wire.UploadRequest, memory: Memory) -> None:
        self.party, self.query, self.size = party, request.query_digest, request.size
        _check_size(request.size, role, manifest.longest_answer)
        self._words = (request.query_digest, request.commitment_a, request.commitment_b)
        uri = NodeName(manifest.federation, Role.party, party).uri
        self.digest = upload_digest(manifest.digest, request.round, uri, *self._words)
        """What identifies a contribution, on both servers alike."""
        self.sealed = _sealed(party, request)
        """Server B's half, to be passed on."""
        self._commit, self._commitment = (commitment_a, commitment_b)[role], self._words[1 + role]
        self._role, self._memory = role, memory
        memory.take(self.size)
        self._payload = bytearray(self.size)
        self.received = 0
        self.complete = False
        self.in_time = False
        """It was whole while it could still come into the sum: this server gives a receipt for it."""
        self.receipt = b""
        self._check: asyncio.Future[bytes] | None = None

    def fits(self, query: bytes, length: int) -> bool:
        """Whether it answers the question that turned out to be the round's."""
        return self.query == query and self.size == payload_bytes(self._role, length)

    async def add(self, request: wire.UploadRequest) -> wire.UploadResponse:
        """A piece; one that does not follow on what is here changes nothing, and the answer says where to go on."""
        words = (request.query_digest, request.commitment_a, request.commitment_b)
        if words != self._words or request.size != self.size:
            return wire.UploadResponse(received=self.received, rejection=CONTRADICTION)
        end = request.offset + len(request.data)
        if not self.complete and self._check is None and request.offset <= self.received < end:
            self._payload[request.offset : end] = request.data
            self.received = end
        if self.received == self.size and not self.complete and not await self._right():
            return wire.UploadResponse(received=0, rejection=DIGEST)
        return wire.UploadResponse(received=self.received, complete=self.complete)

    async def _right(self) -> bool:
        """Whether the payload is what was committed to; a wrong one is dropped, and may be sent again."""
        if self.size <= ON_THE_LOOP_BYTES:
            found = self._commit(self._payload)
        else:
            if self._check is None:
                loop = asyncio.get_running_loop()
                self._check = loop.run_in_executor(None, self._commit, self._payload)
            found = await asyncio.shield(self._check)
            self._check = None
        self.complete = found == self._commitment
        if not self.complete:
            self._clear()
            self.received = 0
        return self.complete

    def add_to(self, contributions: Contributions) -> None:
        """This server's share; A's words stay where they are, and are erased there."""
        if self._role == 0:
            words = np.frombuffer(self._payload, "<u8", offset=BLIND_BYTES)
            contributions.add(self.party, self.digest, words.view(np.uint64))
        else:
            contributions.add(self.party, self.digest, bytes(self._payload))

    def erase(self) -> None:
        """Overwrite and give the memory back."""
        self._clear()
        self._memory.give_back(self.size)
        self.size = 0

    def _clear(self) -> None:
        np.frombuffer(self._payload, np.uint8)[:] = 0


def _check_size(size: int, role: int, longest_answer: int) -> None:
    """A size that no answer of the run has is refused; server B's halves have one size."""
    if role == 1:
        if size != SEED_BYTES:
            raise malformed(f"a payload of {size} bytes", f"send server B {SEED_BYTES} bytes, the seed")
        return
    length, rest = divmod(size - BLIND_BYTES, 8)
    if rest or not 1 <= length <= longest_answer:
        raise malformed(
            f"a payload of {size} bytes",
            f"send server A {BLIND_BYTES} random bytes and 1 to {longest_answer} words of 8 bytes",
        )


def _sealed(party: str, request: wire.UploadRequest) -> wire.RelayedHalf | None:
    if not request.relayed:
        return None
    return wire.RelayedHalf(
        party=party,
        query_digest=request.query_digest,
        commitment_a=request.commitment_a,
        commitment_b=request.commitment_b,
        sealed=request.relayed,
    )
