"""The aggregation server's services over `grpc.aio`: who calls is settled here, the rest is a run's."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from parley.aggregator.peer import UNREADY, AnsweringLink, Halves
from parley.aggregator.pool import NoisePool
from parley.aggregator.rounds import refusal_for
from parley.aggregator.run import Run
from parley.aggregator.state import Tools
from parley.aggregator.terms import DIGEST_BYTES, CallRefusedError, CallWaitsError, Surroundings
from parley.mpc.errors import MpcError
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import aggregator_pb2_grpc, common_pb2

Answer = TypeVar("Answer")
MOST_RECALLED = 256
"""Runs that one answer looks at."""


class Service:
    """All runs of one aggregation server."""

    def __init__(self, around: Surroundings, tools: Tools, pool: NoisePool, version: str) -> None:
        self.around, self._tools, self._pool, self._version = around, tools, pool, version
        self._runs: dict[bytes, Run] = {}
        self.share_bytes = 0

    def run(self, manifest_digest: bytes, ending: bool = False) -> Run:
        """The admitted run, or a refusal; `ending` where nothing is opened of it any more."""
        terms = self.around.terms(manifest_digest, ending) if len(manifest_digest) == DIGEST_BYTES else None
        if terms is None:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED,
                f"manifest {manifest_digest[:32].hex()} is not admitted here",
                "propose it first, or have it approved; if it was withdrawn, end the run",
            )
        run = self._runs.get(manifest_digest)
        if run is None:
            self._tools.store.require_whole(terms.name)
            run = self._runs[manifest_digest] = Run(terms, self._tools)
        return run

    def start(self, manifest_digests: Iterable[bytes]) -> None:
        """After a restart: whatever a crash left of these runs is settled with the other server."""
        for digest in manifest_digests:
            self.run(digest).check_soon()

    def party(self, run: Run, context: Any) -> str:
        """The calling party's name in the run, from its certificate."""
        caller = self.around.caller(context)
        party = run.terms.parties.get(caller)
        if party is None:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER,
                f"the caller is not a party of run {run.terms.name}",
                "see its manifest",
            )
        self._hear(run, caller, context)
        return party

    def _hear(self, run: Run, caller: str, context: Any) -> None:
        event = self.around.heard(caller, context)
        if event is not None:
            run.heard[caller] = event

    def mention(self, run: Run, context: Any) -> None:
        """What has been done with the call is in the trail, as this event or after it."""
        if run.event:
            self.around.mention(context, run.event)

    def led(self, manifest_digest: bytes, context: Any, ending: bool = False) -> Run:
        """The run, if the caller leads it."""
        run = self.run(manifest_digest, ending)
        caller = self.around.caller(context)
        if caller != run.terms.coordinator:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER,
                f"the caller is not the coordinator of run {run.terms.name}",
                "see its manifest",
            )
        self._hear(run, caller, context)
        return run

    def status(self) -> wire.StatusResponse:
        """Public facts."""
        level = self._pool.level()
        return wire.StatusResponse(
            pool_available=level.available,
            pool_capacity=level.capacity,
            pool_produced=level.produced,
            pool_used=level.used,
            pool_lost=level.lost,
            pool_error=level.last_error or "",
            version=self._version,
            share_bytes=self.share_bytes,
        )

    def recall(self, caller: str, offset: int) -> wire.RecallResponse:
        """What was opened with contributions of the caller, in some of its runs, and whether there are more."""
        runs = self.around.taking_part(caller)
        found = []
        for terms in runs[offset : offset + MOST_RECALLED]:
            last = self._tools.store.last_with(terms.name, terms.parties[caller])
            if last is not None:
                found.append(wire.RecalledRun(manifest_digest=terms.digest, run=terms.name, last_round=last))
        following = offset + MOST_RECALLED
        return wire.RecallResponse(runs=found, next=following if following < len(runs) else 0)

    async def serve_peer(
        self, link: AnsweringLink, manifest_digest: bytes, index: int, settling: bool, halves: Halves, gone: Any
    ) -> None:
        """A conversation that server A has begun."""
        try:
            run = self.run(manifest_digest, ending=settling)
        except MpcError as error:
            link.decline(UNREADY, str(error))
            return
        await run.serve(link, index, settling, halves, gone)

    def close(self) -> None:
        for run in self._runs.values():
            run.close()

    async def answer(self, context: Any, handle: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """`handle`, its refusals as typed ones."""
        try:
            return await handle()
        except CallRefusedError as refused:
            await self.around.abort(context, refused)
        except MpcError as error:
            await self.around.abort(context, refusal_for(error))
        return None  # never: abort raises


class ShareServicer(aggregator_pb2_grpc.ShareServiceServicer):
    """For parties."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def Upload(self, request: wire.UploadRequest, context: Any) -> wire.UploadResponse | None:
        async def handle() -> wire.UploadResponse:
            self._service.share_bytes += request.ByteSize()
            run = self._service.run(request.manifest_digest)
            answer = await run.upload(self._service.party(run, context), request)
            if answer.complete:
                self._service.mention(run, context)
            return answer

        return await self._service.answer(context, handle)

    async def Recall(self, request: wire.RecallRequest, context: Any) -> wire.RecallResponse | None:
        async def handle() -> wire.RecallResponse:
            caller = self._service.around.caller(context)
            return await asyncio.to_thread(self._service.recall, caller, request.offset)

        return await self._service.answer(context, handle)

    async def Statements(self, request: wire.StatementsRequest, context: Any) -> wire.StatementsResponse | None:
        async def handle() -> wire.StatementsResponse:
            self._service.share_bytes += request.ByteSize()
            run = self._service.run(request.manifest_digest, ending=True)
            return run.statements(self._service.party(run, context), request)

        return await self._service.answer(context, handle)


class ControlServicer(aggregator_pb2_grpc.ControlServiceServicer):
    """For coordinators."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def Propose(self, request: wire.ProposeRequest, context: Any) -> wire.ProposeResponse | None:
        async def handle() -> wire.ProposeResponse:
            around = self._service.around
            proposal = await around.propose(request.manifest, around.caller(context))
            word = around.sign_admission(hashlib.sha256(request.manifest).digest()) if proposal.admitted else None
            return wire.ProposeResponse(
                admitted=proposal.admitted, reasons=proposal.reasons, pending=proposal.pending, admission=word
            )

        return await self._service.answer(context, handle)

    async def Open(self, request: wire.OpenRequest, context: Any) -> wire.OpenResponse | None:
        async def handle() -> wire.OpenResponse:
            run = self._service.led(request.manifest_digest, context)
            answer = await run.open(request)
            if answer.state == wire.OpenResponse.STATE_OPENED:
                self._service.mention(run, context)
            return answer

        return await self._service.answer(context, handle)

    async def FetchShare(self, request: wire.FetchShareRequest, context: Any) -> wire.FetchShareResponse | None:
        async def handle() -> wire.FetchShareResponse:
            run = self._service.led(request.manifest_digest, context)
            return wire.FetchShareResponse(data=run.share(request.round, request.offset))

        return await self._service.answer(context, handle)

    async def End(self, request: wire.EndRequest, context: Any) -> wire.EndResponse | None:
        async def handle() -> wire.EndResponse:
            around = self._service.around
            if request.manifest and around.terms(request.manifest_digest, True) is None:
                await around.never_admit(request.manifest, request.manifest_digest, around.caller(context))
                return wire.EndResponse(end=around.sign_end(request.manifest_digest, 0))
            run = self._service.led(request.manifest_digest, context, ending=True)
            openings = await run.end()
            self._service.mention(run, context)
            return wire.EndResponse(end=self._service.around.sign_end(run.terms.digest, openings))

        return await self._service.answer(context, handle)

    async def Status(self, request: wire.StatusRequest, context: Any) -> wire.StatusResponse | None:
        async def handle() -> wire.StatusResponse:
            if not self._service.around.caller(context):
                raise CallWaitsError("nobody is calling", "present a certificate")
            return self._service.status()

        return await self._service.answer(context, handle)
