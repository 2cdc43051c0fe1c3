"""All runs of one aggregation server: whose call it is, and what it is told of the server itself."""

import asyncio
from collections.abc import Iterable
from typing import Any

from parley.aggregator.accounts import Accounts
from parley.aggregator.peer import LOST, UNREADY, AnsweringLink, Halves
from parley.aggregator.refusals import CallRefusedError, malformed
from parley.aggregator.run import Run
from parley.aggregator.server import Server
from parley.federation.names import NodeName, Role
from parley.federation.rounds import DIGEST_BYTES
from parley.mpc.errors import MpcError
from parley.node import logs, mentions
from parley.node.authorization import peer_of
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import common_pb2

MOST_RECALLED = 256
"""Runs that one answer looks at."""
MOST_KNOWN, MOST_PIECES = 64, 8
"""Of evidence: what a caller may name, and what one answer holds."""
FOLLOW_SECONDS = 2.0
log = logs.logger()


class Service:
    """The runs, each from its first call on."""

    def __init__(self, server: Server, version: str) -> None:
        self.server, self._version = server, version
        self._runs: dict[bytes, Run] = {}
        self._following: asyncio.Task[None] | None = None
        self.share_bytes = 0
        self.accounts = Accounts(server)

    def run(self, manifest_digest: bytes, ending: bool = False) -> Run:
        """The admitted run, or a refusal; `ending` where nothing is opened of it any more."""
        known = len(manifest_digest) == DIGEST_BYTES
        manifest = self.server.admissions.manifest(manifest_digest, ending) if known else None
        if manifest is None:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED,
                f"manifest {manifest_digest[:32].hex()} is not admitted here",
                "propose it first, or have it approved; if it was withdrawn, end the run",
            )
        if self.server.store.lost(manifest.run):
            raise CallRefusedError(
                common_pb2.REFUSAL_LOST,
                f"this server was restored from a backup in which run {manifest.run} was open: it is lost here",
                "what parties were charged for it stays charged; start another run",
            )
        run = self._runs.get(manifest_digest)
        if run is None:
            self.server.store.require_whole(manifest.run)
            run = self._runs[manifest_digest] = Run(manifest, self.server)
        return run

    def start(self, manifest_digests: Iterable[bytes]) -> None:
        """After a restart: whatever a crash left of these runs is settled with the other server."""
        for digest in manifest_digests:
            if not self.server.lost(digest):
                self.run(digest).check_soon()
        self.server.follow()
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        """What a person admits or withdraws, in another process."""
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                self.server.follow()
            except MpcError as error:  # a store that is damaged: said once more where a run is asked for
                log.error("the runs that are open cannot be told", error=error)

    def party(self, run: Run, context: Any) -> str:
        """The calling party's name in the run, from its certificate."""
        caller = peer_of(context)
        if caller not in run.manifest.members:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER,
                f"the caller is not a party of run {run.manifest.run}",
                "see its manifest",
            )
        _hear(run, caller, context)
        return caller.name

    def require_not_restored(self, run: Run, restored: bytes) -> None:
        """Of whoever uploads: that it was charged on a word of this server as it is now, and not on a forgotten one."""
        if restored != self.server.restored:
            raise CallRefusedError(
                common_pb2.REFUSAL_LOST,
                f"this server was restored from a backup since the caller was charged for run {run.manifest.run}",
                "the charge stays; start another run",
            )

    def led(self, manifest_digest: bytes, context: Any, ending: bool = False) -> Run:
        """The run, if the caller leads it."""
        run = self.run(manifest_digest, ending)
        caller = peer_of(context)
        if caller != run.manifest.identities(Role.coordinator)[0]:
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_A_MEMBER,
                f"the caller is not the coordinator of run {run.manifest.run}",
                "see its manifest",
            )
        _hear(run, caller, context)
        return run

    def status(self) -> wire.StatusResponse:
        """Public facts."""
        level = self.server.noise.plain.level()
        return wire.StatusResponse(
            pool_available=level.available,
            pool_capacity=level.capacity,
            pool_produced=level.produced,
            pool_used=level.used,
            pool_lost=level.lost,
            pool_error=level.last_error or self.server.room.disk_error,
            version=self._version,
            share_bytes=self.share_bytes,
            covert=self._covert(),
            evidence=[bytes.fromhex(held.digest) for held in self.server.pending()],
        )

    def _covert(self) -> wire.CovertPool:
        level = self.server.noise.covert.level()
        return wire.CovertPool(
            available=level.available,
            capacity=level.capacity,
            produced=level.produced,
            used=level.used,
            lost=level.lost,
            error=level.last_error or "",
            resting=level.resting,
            lanes=level.lanes,
            audits_made=level.audits[0],
            audits_passed=level.audits[1],
        )

    def evidence(self, request: wire.EvidenceRequest) -> wire.EvidenceResponse:
        """What this server holds against the other one: for every member of its runs, who verifies it."""
        if len(request.known) > MOST_KNOWN:
            raise malformed(f"{len(request.known)} known pieces of evidence", f"name at most {MOST_KNOWN}")
        return wire.EvidenceResponse(evidence=self.server.pieces(request.known, MOST_PIECES))

    def recall(self, caller: NodeName, offset: int) -> wire.RecallResponse:
        """What was opened with contributions of the caller, in some of its runs, and whether there are more."""
        runs = self.server.admissions.taking_part(caller)
        found = []
        for manifest in runs[offset : offset + MOST_RECALLED]:
            last = self.server.store.last_with(manifest.run, caller.name)
            if last is not None:
                found.append(wire.RecalledRun(manifest_digest=manifest.digest, run=manifest.run, last_round=last))
        following = offset + MOST_RECALLED
        return wire.RecallResponse(runs=found, next=following if following < len(runs) else 0)

    async def serve_peer(
        self, link: AnsweringLink, manifest_digest: bytes, index: int, settling: bool, halves: Halves,
        gone: asyncio.Event,
    ) -> None:  # fmt: skip
        """A conversation that server A has begun."""
        try:
            run = self.run(manifest_digest, ending=settling)
        except MpcError as error:
            lost = isinstance(error, CallRefusedError) and error.refusal == common_pb2.REFUSAL_LOST
            link.decline(LOST if lost else UNREADY, str(error))
            return
        await run.serve(link, index, settling, halves, gone)

    def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
        for run in self._runs.values():
            run.close()


def _hear(run: Run, caller: NodeName, context: Any) -> None:
    """The event of its own trail that the caller mentions."""
    event = mentions.by(caller, context.invocation_metadata())
    if event is not None:
        run.heard[caller] = event


def mention(run: Run, context: Any) -> None:
    """What has been done with the call is in the trail, as this event or after it."""
    if run.event:
        context.set_trailing_metadata(mentions.of(run.event))
