"""What parties ask of the coordinator. Who asks is in the certificate; what they learn is for every member of a run."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from parley.coordinator.caught import NO_WATCH, Watch
from parley.coordinator.run import Run
from parley.coordinator.runs import Runs
from parley.coordinator.store import State
from parley.federation.names import NodeName, Role
from parley.federation.rounds import DIGEST_BYTES, PIECE_BYTES, bounded_wait
from parley.node import mentions
from parley.node.authorization import peer_of
from parley.node.refusals import RefusedCallError, answering
from parley.node.revoked_lists import RevokedLists
from parley.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc

Found = TypeVar("Found")
MOST_PENDING = 40
"""Calls of one party at once, over all runs, of which it takes part in 32: more is a fault or a flood."""
MOST_MANIFEST_BYTES = 3 << 20
MOST_KNOWN = 4096
MOST_HELD = 256
"""Points that a party may say it holds."""
LONGEST_REASON = 500


class PartyServicer(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """The coordinator's face towards parties."""

    def __init__(self, runs: Runs, watch: Watch = NO_WATCH, lists: RevokedLists | None = None) -> None:
        self._runs, self._watch, self._lists = runs, watch, lists
        self._pending: Counter[NodeName] = Counter()

    @answering(RefusedCallError)
    async def ListRuns(
        self, request: coordinator_pb2.ListRunsRequest, context: Any
    ) -> coordinator_pb2.ListRunsResponse:
        if len(request.known_digests) > MOST_KNOWN:
            raise RefusedCallError(
                common_pb2.REFUSAL_MALFORMED, f"more than {MOST_KNOWN} known runs", "name the newest"
            )
        async with self._polling(peer_of(context)) as party:
            found = await self._list(party, set(request.known_digests), bounded_wait(request.wait_seconds))
            if self._lists is not None:
                found.revoked = self._lists.newer_than(request.revoked_number)
            return found

    async def _list(self, party: NodeName, known: set[bytes], wait: float) -> coordinator_pb2.ListRunsResponse:
        def new() -> list[bytes]:
            return [
                run.manifest.canonical
                for digest, run in self._runs.all.items()
                if digest not in known
                and run.state in (State.gathering, State.running)
                and party in run.manifest.identities(Role.party)
            ]

        found = await _until(self._runs.changed, time.monotonic() + wait, new)
        size, fitting = 0, []
        for manifest in found:
            size += len(manifest)
            if size <= MOST_MANIFEST_BYTES:
                fitting.append(manifest)
        return coordinator_pb2.ListRunsResponse(manifests=fitting)

    @answering(RefusedCallError)
    async def Join(self, request: coordinator_pb2.JoinRequest, context: Any) -> coordinator_pb2.JoinResponse:
        run, party = self._member(request.manifest_digest, context)
        reason = "".join(each for each in request.reason[:LONGEST_REASON] if each.isprintable())
        async with self._polling(peer_of(context)):
            heard = mentions.by(peer_of(context), context.invocation_metadata())
            event = await self._runs.joined(run, party, request.accepted, reason, heard)
            if event:
                context.set_trailing_metadata(mentions.of(event))
        return coordinator_pb2.JoinResponse()

    @answering(RefusedCallError)
    async def NextRound(
        self, request: coordinator_pb2.NextRoundRequest, context: Any
    ) -> coordinator_pb2.NextRoundResponse:
        run, party = self._member(request.manifest_digest, context)
        if party not in run.joined and not run.state.final:
            raise RefusedCallError(
                common_pb2.REFUSAL_NOT_A_MEMBER, f"{party} has not joined this run", "call Join first"
            )
        if request.after_round > run.index and run.state is State.running and run.question is not None:
            raise RefusedCallError(
                common_pb2.REFUSAL_CONTRADICTION,
                f"round {request.after_round} was never asked here, {run.index} is the newest",
                "this coordinator's state may be an old copy: restore the newest",
            )
        if not -1 <= request.after_round < run.manifest.releases:
            raise RefusedCallError(
                common_pb2.REFUSAL_MALFORMED, f"no round {request.after_round}", "give -1 or a round"
            )
        if len(request.held_points) > MOST_HELD:
            raise RefusedCallError(
                common_pb2.REFUSAL_MALFORMED, f"more than {MOST_HELD} held points", "name the newest"
            )
        async with self._polling(peer_of(context)):
            return await self._next(run, party, request)

    async def _next(
        self, run: Run, party: str, request: coordinator_pb2.NextRoundRequest
    ) -> coordinator_pb2.NextRoundResponse:
        def work() -> bool:
            return run.state.final or run.has_work_for(party, request.after_round)

        run.note_asked(party, request.after_round)
        if not await _until(run.changed, time.monotonic() + bounded_wait(request.wait_seconds), work):
            return coordinator_pb2.NextRoundResponse(
                state=coordinator_pb2.NextRoundResponse.STATE_WAIT, outcome=run.outcome
            )
        if run.state.final:
            return coordinator_pb2.NextRoundResponse(
                state=coordinator_pb2.NextRoundResponse.STATE_ENDED,
                ends=run.ends,
                outcome=run.outcome,
                evidence=self._watch.pieces(run.manifest),
            )
        run.lost.discard(party)
        assert run.question is not None
        question = run.question.for_party(frozenset(request.held_points))
        answer = coordinator_pb2.NextRoundResponse(
            state=coordinator_pb2.NextRoundResponse.STATE_ROUND,
            round=question,
            admissions=run.admissions if request.after_round < 0 else (),  # who has answered has charged
            statements=run.question.statements,
        )
        run.bytes_down += answer.ByteSize()
        return answer

    @answering(RefusedCallError)
    async def FetchPoint(
        self, request: coordinator_pb2.FetchPointRequest, context: Any
    ) -> coordinator_pb2.FetchPointResponse:
        run, _ = self._member(request.manifest_digest, context)
        data = run.question.points.get(request.digest) if run.question else None
        if data is None:
            raise RefusedCallError(
                common_pb2.REFUSAL_TOO_LATE, "no such point is asked about", "ask for the round again"
            )
        if request.offset >= len(data):
            raise RefusedCallError(common_pb2.REFUSAL_MALFORMED, "the point ends before that", "begin below its size")
        piece = data[request.offset : request.offset + PIECE_BYTES]
        run.bytes_down += len(piece)
        return coordinator_pb2.FetchPointResponse(data=piece)

    def _member(self, digest: bytes, context: Any) -> tuple[Run, str]:
        """The run, and the caller's name in it; who has no part in it learns nothing of it."""
        if len(digest) != DIGEST_BYTES:
            raise RefusedCallError(
                common_pb2.REFUSAL_MALFORMED, "a manifest's digest has 32 bytes", "send SHA-256 of it"
            )
        peer = peer_of(context)
        run = self._runs.all.get(digest)
        if (
            run is None
            or run.state is State.verifying
            or (run.state is State.refused and not run.ends)
            or peer not in run.manifest.identities(Role.party)
        ):
            raise RefusedCallError(
                common_pb2.REFUSAL_NOT_A_MEMBER,
                "no run of that digest has this party",
                "ask ListRuns for this party's runs",
            )
        return run, peer.name

    @asynccontextmanager
    async def _polling(self, peer: NodeName) -> AsyncIterator[NodeName]:
        if self._pending[peer] >= MOST_PENDING:
            raise RefusedCallError(
                common_pb2.REFUSAL_BUSY,
                f"{MOST_PENDING} calls of this party are waiting already",
                "wait for their answers",
            )
        self._pending[peer] += 1
        try:
            yield peer
        finally:
            self._pending[peer] -= 1
            if not self._pending[peer]:
                del self._pending[peer]


async def _until(condition: asyncio.Condition, until: float, look: Callable[[], Found]) -> Found:
    """What `look` finds, as soon as it is something or time is up.

    It looks while it holds the condition, as those do who change what it looks at: a change between a look and the wait
    for the next would be slept through.
    """
    async with condition:
        while not (found := look()) and (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):  # in this task: cancelled twice, it still holds the lock
                    await condition.wait()
            except TimeoutError:
                return look()
        return found
