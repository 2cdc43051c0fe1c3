"""The coordinator's calls to the two aggregators. What it gets from them is shares of noised sums, and public facts."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import numpy as np
from numpy.typing import NDArray

from parley.coordinator.errors import RunFailedError, SaysCaughtError
from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc.ring import Lattice
from parley.node import mentions
from parley.node.backoff import Backoff
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity, NodeFolder
from parley.node.newer import StrictAioChannel
from parley.node.refusals import refusal_in, words
from parley.node.revoked_lists import RevokedLists
from parley.node.transport import EARLIER, InUse, open_aio_channel, refusal_of
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, common_pb2

Integers = NDArray[np.int64]

OPEN_WAIT_SECONDS = 1.0
"""Of one long poll: short, so that who is missing shows, and a server that restarted is asked again."""
SLACK_SECONDS = 10.0
"""Beyond a long poll's own wait: adding noise, storing, a busy machine."""
FIRST_BACKOFF_SECONDS = 0.1
LONGEST_BACKOFF_SECONDS = 5.0
LONGEST_SECONDS = 7 * 24 * 3600.0
"""That anything takes; a deadline is not longer."""
FOR_GOOD = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INVALID_ARGUMENT,
)
"""Untyped failures that waiting does not mend. Anything else may pass, such as a server that is down or whose disk is
full: nothing was opened, so the run waits, and rests if it lasts."""
PASSING = (common_pb2.REFUSAL_BUSY, common_pb2.REFUSAL_NEWER)
"""Refusals after which the run waits, and rests if it lasts: the older side may be upgraded meanwhile."""


TELLING = ("Propose", "Open")
"""Calls that bring the server a newer list of revoked certificates; without one they are as ever."""


class StalledError(RunFailedError):
    """Nothing was opened and nothing is lost: the run can be resumed."""


class ShortError(StalledError):
    """Too few parties contributed by the deadline."""

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        super().__init__(f"too few parties contributed by the deadline; missing: {', '.join(missing) or 'unknown'}")


@dataclass(frozen=True)
class Opening:
    """A noised sum, and public facts about how it came."""

    total: Integers
    """In lattice steps, centred."""
    contributors: tuple[str, ...]
    waited_seconds: float
    agreed_seconds: float
    noised_seconds: float
    statements: tuple[bytes, ...] = ()
    """Both servers' signed words about it, A's first: for parties, who judge them."""


@dataclass(kw_only=True)
class Wanted:
    """What to open; `missing` is told who has not contributed yet while that is waited for."""

    digest: bytes
    round: int
    query: bytes
    length: int
    lattice: Lattice
    expected: Callable[[], Sequence[str]]
    missing: Callable[[int, Sequence[str]], None]
    patience_seconds: float
    """For a server that does not answer."""
    extra: dict[str, Any] = field(default_factory=dict)


class Opener(Protocol):
    """Opens noised sums: two servers, always. The benchmark's baseline has an opener of its own."""

    async def open(self, wanted: Wanted) -> Opening: ...


class Control:
    """One aggregator's control port."""

    def __init__(self, folder: NodeFolder, peer: NodeName, address: str) -> None:
        self._folder, self.peer, self._address = folder, peer, address
        self._in_use: InUse | None = None
        self._identity: Identity | None = None
        self._channel: StrictAioChannel | None = None
        self._lists, self._told = RevokedLists(folder), 0
        """And the number of the newest list of revoked certificates that the server was given."""
        self.mention = ""
        """This coordinator's newest event of the run, which calls mention."""
        self.heard: str | None = None
        """The newest event of the server that an answer has mentioned."""

    async def _stub(self) -> Any:
        """Dials anew when another certificate was installed, or pins have changed."""
        if self._in_use is None:
            self._in_use = InUse(self._folder)
        identity = self._in_use()
        if self._channel is None or identity is not self._identity:
            await self.close()
            self._identity = identity
            self._channel = open_aio_channel(self._address, identity, self.peer, KEEPALIVE)
            self._made = aggregator_pb2_grpc.ControlServiceStub(self._channel)
        return self._made

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def call(self, method: str, request: Any, patience_seconds: float, wait_seconds: float = 0.0) -> Any:
        """One call, repeated while the server is away: every method here is idempotent."""
        given_up = time.monotonic() + patience_seconds
        if method in TELLING and (revoked := self._lists.newer_than(self._told)):
            request.revoked = revoked
        backoff = Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
        while True:
            try:
                answer = await self._ask(method, request, wait_seconds + SLACK_SECONDS)
                if method in TELLING and request.revoked:
                    self._told = self._lists.number
                return answer
            except grpc.aio.AioRpcError as error:
                refused = refusal_in(error)
                if refused is not None and refused.refusal not in PASSING:
                    caught = refused.refusal == common_pb2.REFUSAL_CAUGHT
                    kind = SaysCaughtError if caught else RunFailedError
                    raise kind(f"aggregator {self.peer.name} refuses: {refused}") from None
                if refused is None and error.code() in FOR_GOOD:
                    earlier = error.code() is grpc.StatusCode.UNIMPLEMENTED
                    said = EARLIER.format("it") if earlier else _described(error)
                    raise RunFailedError(f"aggregator {self.peer.name}: {said}") from None
                if time.monotonic() > given_up:
                    cause = self._refusal(error) or _described(error)
                    raise StalledError(
                        f"aggregator {self.peer.name} at {self._address} did not answer for "
                        f"{patience_seconds:.0f} s ({cause}): start it, then resume the run"
                    ) from None
            except FederationError as error:
                raise StalledError(f"this node's certificate cannot be used: {error}") from None
            await asyncio.sleep(backoff.next_seconds())

    def _refusal(self, error: grpc.aio.AioRpcError) -> FederationError | None:
        return refusal_of(error, self._identity, self.peer) if self._identity is not None else None

    async def _ask(self, method: str, request: Any, seconds: float) -> Any:
        stub = await self._stub()
        call = getattr(stub, method)(
            request, timeout=seconds, metadata=mentions.of(self.mention) if self.mention else None
        )
        answer = await call
        self.heard = mentions.by(self.peer, await call.trailing_metadata()) or self.heard
        return answer

    async def whole_share(self, wanted: Wanted, answer: aggregator_pb2.OpenResponse) -> bytes:
        """A share may be longer than one message."""
        if answer.size != 8 * wanted.length:
            raise RunFailedError(f"aggregator {self.peer.name} opened a sum of another length")
        pieces, have = [answer.share], len(answer.share)
        while have < answer.size:
            request = aggregator_pb2.FetchShareRequest(manifest_digest=wanted.digest, round=wanted.round, offset=have)
            piece = (await self.call("FetchShare", request, wanted.patience_seconds)).data
            if not piece:
                raise RunFailedError(f"aggregator {self.peer.name} sent a share that ends early")
            pieces.append(piece)
            have += len(piece)
        if have != answer.size:
            raise RunFailedError(f"aggregator {self.peer.name} sent a share that is too long")
        return b"".join(pieces)


class Controls:
    """Both aggregators of a manifest, A then B."""

    def __init__(self, folder: NodeFolder, manifest: Manifest, addresses: dict[str, str]) -> None:
        self.servers = [Control(folder, peer, addresses[peer.name]) for peer in manifest.identities(Role.aggregator)]

    async def close(self) -> None:
        for server in self.servers:
            await server.close()

    def heard(self) -> list[str]:
        """What both servers have mentioned since this was asked last."""
        found = [server.heard for server in self.servers if server.heard is not None]
        for server in self.servers:
            server.heard = None
        return found

    def mention(self, event: str) -> None:
        for server in self.servers:
            server.mention = event

    async def evidence(self, known: Sequence[bytes]) -> list[tuple[NodeName, Sequence[bytes]]]:
        """What each server holds against the other one; nothing of a server that does not answer at once."""
        request = aggregator_pb2.EvidenceRequest(known=known)
        asked = (server.call("Evidence", request, patience_seconds=0.0) for server in self.servers)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [
            (server.peer, answer.evidence)
            for server, answer in zip(self.servers, answers, strict=True)
            if isinstance(answer, aggregator_pb2.EvidenceResponse)
        ]

    async def open(self, wanted: Wanted) -> Opening:
        """One noised sum from both servers' shares; asked again it comes out the same."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._open_one(place, server, wanted))
                    for place, server in enumerate(self.servers)
                ]
        except* RunFailedError as errors:
            said = [error for error in errors.exceptions if isinstance(error, SaysCaughtError)]
            raise (said or errors.exceptions)[0] from None
        (first, share_a), (second, share_b) = (task.result() for task in tasks)
        if first.opening != second.opening or list(first.contributors) != list(second.contributors):
            raise RunFailedError(f"round {wanted.round}: the two aggregators' shares are of different openings")
        total = wanted.lattice.open(np.frombuffer(share_a, "<u8"), np.frombuffer(share_b, "<u8"))
        return Opening(
            total,
            tuple(first.contributors),
            max(_seconds(first.waited_seconds), _seconds(second.waited_seconds)),
            max(_seconds(first.agreed_seconds), _seconds(second.agreed_seconds)),
            max(_seconds(first.noised_seconds), _seconds(second.noised_seconds)),
            (first.statement.SerializeToString(), second.statement.SerializeToString()),
        )

    async def _open_one(self, place: int, server: Control, wanted: Wanted) -> tuple[aggregator_pb2.OpenResponse, bytes]:
        while True:
            request = aggregator_pb2.OpenRequest(
                manifest_digest=wanted.digest,
                round=wanted.round,
                query_digest=wanted.query,
                length=wanted.length,
                expected=wanted.expected(),
                wait_seconds=OPEN_WAIT_SECONDS,
            )
            answer = await server.call("Open", request, wanted.patience_seconds, OPEN_WAIT_SECONDS)
            if answer.state == aggregator_pb2.OpenResponse.STATE_OPENED:
                return answer, await server.whole_share(wanted, answer)
            if answer.state == aggregator_pb2.OpenResponse.STATE_SHORT:
                raise ShortError([party for party in answer.missing if party in request.expected])
            wanted.missing(place, answer.missing)


def _seconds(said: float) -> float:
    """A server's word for how long it took; what is no time would spoil every figure that it goes into."""
    return min(said, LONGEST_SECONDS) if said > 0 else 0.0


def _described(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name.lower()}: {words(error.details() or 'no details')}"
