"""What one run on one aggregation server takes in: parties' uploads, their own and those that server A passes on."""

import asyncio
import contextlib

from parley.aggregator.peer import Halves
from parley.aggregator.refusals import CallRefusedError, malformed
from parley.aggregator.rounds import Round
from parley.aggregator.state import RunState
from parley.aggregator.uploads import Upload, check_form
from parley.federation.names import NodeName, Role
from parley.federation.rounds import payload_bytes, upload_digest
from parley.node.relay import KEY_SECONDS
from parley.v1 import aggregator_pb2 as wire

Rejection = wire.UploadResponse.Rejection


class Intake(RunState):
    """The part of a run that fills its rounds."""

    async def upload(self, party: str, request: wire.UploadRequest) -> wire.UploadResponse:
        """A piece of a party's half; a receipt with the last one."""
        answer = await self._piece(party, request)
        current = self._rounds.get(request.round)
        upload = current.uploads.get(party) if answer.complete and current else None
        if upload is not None and upload.in_time:
            upload.receipt = upload.receipt or self._receipt(request.round, upload.query, upload.digest)
            answer.receipt.ParseFromString(upload.receipt)
        return answer

    async def _piece(self, party: str, request: wire.UploadRequest) -> wire.UploadResponse:
        check_form(request, self._server.role)
        index = request.round
        if self.openings is not None or self._ending or index < self.opened or index >= self.manifest.releases:
            return wire.UploadResponse(rejection=Rejection.REJECTION_TOO_LATE)
        if index > self.opened + 1:
            return wire.UploadResponse(rejection=Rejection.REJECTION_TOO_EARLY)
        current, bits = self._round(index), self.manifest.share_bits
        if current.query is not None:
            if current.query != request.query_digest:
                return wire.UploadResponse(rejection=Rejection.REJECTION_OTHER_QUERY)
            if request.size != (due := payload_bytes(self._server.role, current.length, bits)):
                raise malformed(f"a payload of {request.size} bytes", f"round {index} takes {due}")
        upload = current.uploads.get(party)
        if upload is None:
            upload = current.uploads[party] = Upload(
                self.manifest, self._server.role, party, request, self._server.room
            )
        answer = await upload.add(request)
        if answer.complete:
            fixed = current.taken or (self._prepared and index == self.opened)
            upload.in_time = upload.in_time or not fixed
            if request.relay_key:
                self.keys.hold(party, index, request.relay_key)
                loop = asyncio.get_running_loop()
                loop.call_later(KEY_SECONDS + 1, lambda: self.keys.forget_before(self.opened))
            if current.decide():
                self._changed()
        return answer

    async def _take(self, index: int, halves: Halves) -> None:
        """On server B: what A passes on. What does not open, or is refused, is missing."""
        current = self._round(index)
        for half in halves[: len(self.manifest.parties)]:
            if current.has(half.party) or not self.keys.holds(half.party):
                continue
            words = (half.query_digest, half.commitment_a, half.commitment_b)
            uri = NodeName(self.manifest.federation, Role.party, half.party).uri
            digest = upload_digest(self.manifest.digest, index, uri, *words)
            payload = self.keys.open(half.party, index, digest, half.sealed)
            if payload is None:
                continue
            request = wire.UploadRequest(
                manifest_digest=self.manifest.digest,
                round=index,
                query_digest=half.query_digest,
                commitment_a=half.commitment_a,
                commitment_b=half.commitment_b,
                size=len(payload),
                data=payload,
            )
            with contextlib.suppress(CallRefusedError):
                await self._piece(half.party, request)
        current.relayed = True
        self._changed()

    def _blamed(self, current: Round) -> list[str]:
        """Whom to call missing: not those whose halves A may still pass on."""
        return [party for party in current.missing() if current.relayed or not self.keys.holds(party)]

    def _round(self, index: int) -> Round:
        if index not in self._rounds:
            self._rounds[index] = Round(self.manifest, index)
        return self._rounds[index]
