"""The aggregation server's services over `grpc.aio`: who calls is settled here, the rest is a run's."""

import asyncio
import hashlib
from typing import Any

from parley.aggregator.rounds import refusal_for
from parley.aggregator.service import Service, mention
from parley.mpc.errors import MpcError
from parley.node.authorization import peer_of
from parley.node.refusals import answering
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import aggregator_pb2_grpc

answered = answering(MpcError, refusal=refusal_for)


class ShareServicer(aggregator_pb2_grpc.ShareServiceServicer):
    """For parties."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @answered
    async def Upload(self, request: wire.UploadRequest, context: Any) -> wire.UploadResponse:
        self._service.share_bytes += request.ByteSize()
        run = self._service.run(request.manifest_digest)
        party = self._service.party(run, context)
        self._service.require_not_restored(run, request.restored)
        answer = await run.upload(party, request)
        if answer.complete:
            mention(run, context)
        return answer

    @answered
    async def Recall(self, request: wire.RecallRequest, context: Any) -> wire.RecallResponse:
        return await asyncio.to_thread(self._service.recall, peer_of(context), request.offset)

    @answered
    async def Statements(self, request: wire.StatementsRequest, context: Any) -> wire.StatementsResponse:
        self._service.share_bytes += request.ByteSize()
        run = self._service.run(request.manifest_digest, ending=True)
        return run.statements(self._service.party(run, context), request)

    @answered
    async def Evidence(self, request: wire.EvidenceRequest, context: Any) -> wire.EvidenceResponse:
        self._service.share_bytes += request.ByteSize()
        peer_of(context)  # a member of some run: what is here concerns all of them
        return self._service.evidence(request)

    @answered
    async def Account(self, request: wire.AccountRequest, context: Any) -> wire.AccountResponse:
        self._service.share_bytes += request.ByteSize()
        return await self._service.accounts.answer(peer_of(context), request)


class ControlServicer(aggregator_pb2_grpc.ControlServiceServicer):
    """For coordinators."""

    def __init__(self, service: Service) -> None:
        self._service, self._server = service, service.server

    @answered
    async def Propose(self, request: wire.ProposeRequest, context: Any) -> wire.ProposeResponse:
        if request.revoked:
            await asyncio.to_thread(self._server.lists.take, request.revoked, peer_of(context))
        proposal = await self._server.admissions.propose(request.manifest, peer_of(context).uri)
        if proposal.admitted:
            self._server.follow()
        digest = hashlib.sha256(request.manifest).digest()
        return wire.ProposeResponse(
            admitted=proposal.admitted,
            reasons=proposal.reasons,
            pending=proposal.pending,
            admission=self._server.signer.admission(digest) if proposal.admitted else None,
        )

    @answered
    async def Open(self, request: wire.OpenRequest, context: Any) -> wire.OpenResponse:
        run = self._service.led(request.manifest_digest, context)
        if request.revoked:
            await asyncio.to_thread(self._server.lists.take, request.revoked, peer_of(context))
        answer = await run.open(request)
        if answer.state == wire.OpenResponse.STATE_OPENED:
            mention(run, context)
        return answer

    @answered
    async def FetchShare(self, request: wire.FetchShareRequest, context: Any) -> wire.FetchShareResponse:
        run = self._service.led(request.manifest_digest, context)
        return wire.FetchShareResponse(data=run.share(request.round, request.offset))

    @answered
    async def End(self, request: wire.EndRequest, context: Any) -> wire.EndResponse:
        admissions, signer = self._server.admissions, self._server.signer
        digest = request.manifest_digest
        if request.manifest and admissions.manifest(digest, ending=True) is None:
            await admissions.never_admit(request.manifest, digest, peer_of(context).uri, self._server.store.knows)
            return wire.EndResponse(end=signer.end(digest, 0))
        run = self._service.led(digest, context, ending=True)
        openings = await run.end()
        self._server.follow()
        mention(run, context)
        return wire.EndResponse(end=signer.end(digest, openings, self._server.store.word(run.manifest.run)))

    @answered
    async def Status(self, request: wire.StatusRequest, context: Any) -> wire.StatusResponse:
        peer_of(context)  # nobody who was not looked at
        return self._service.status()

    @answered
    async def Evidence(self, request: wire.EvidenceRequest, context: Any) -> wire.EvidenceResponse:
        peer_of(context)
        return self._service.evidence(request)

    @answered
    async def Account(self, request: wire.AccountRequest, context: Any) -> wire.AccountResponse:
        return await self._service.accounts.answer(peer_of(context), request)
