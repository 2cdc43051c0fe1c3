"""What this server tells a node that was restored: every run that names it and that was ever admitted here, signed.

From the record of admissions, which forgets nothing, and the store of openings: runs that have ended, were withdrawn,
never began, or are such that this server would refuse them today are all in it. Where either of the two cannot be read,
there is no account.
"""

import asyncio

from parley.aggregator.admission import Turns
from parley.aggregator.refusals import CallRefusedError, CallWaitsError, malformed
from parley.aggregator.server import Server
from parley.federation.errors import ApprovalError
from parley.federation.names import NodeName, Role
from parley.federation.rounds import DIGEST_BYTES
from parley.node.accounts import MOST_RUNS, NONCE_BYTES
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import common_pb2


class Accounts:
    """Of one server. One at a time is worked out, and callers take turns: a flood of them takes one thread."""

    def __init__(self, server: Server) -> None:
        self._server, self._turns = server, Turns()
        self._members: dict[bytes, frozenset[NodeName]] = {}
        """By manifest: each is parsed once."""

    async def answer(self, caller: NodeName, request: wire.AccountRequest) -> wire.AccountResponse:
        """A part of the caller's account, or a manifest that is in it."""
        async with self._turns.turn(caller.uri):
            return await asyncio.to_thread(self._answer, caller, request)

    def _answer(self, caller: NodeName, request: wire.AccountRequest) -> wire.AccountResponse:
        try:
            known = self._naming(caller)
            if request.manifest_digest:
                return wire.AccountResponse(manifest=self._manifest(known, request.manifest_digest))
        except ApprovalError as error:
            raise CallWaitsError("the record of admissions cannot be read", str(error)) from None
        if len(request.nonce) != NONCE_BYTES:
            raise malformed(f"a nonce of {len(request.nonce)} bytes", f"draw {NONCE_BYTES}")
        account = wire.Account(
            aggregator=self._server.name.uri,
            caller=caller.uri,
            nonce=request.nonce,
            offset=request.offset,
            total=len(known),
            runs=[self._run(*row, caller) for row in known[request.offset : request.offset + MOST_RUNS]],
            restored=[
                wire.Restoration(restored=each.word, made=each.made, at=each.at)
                for each in self._server.store.restorations()
            ],
        )
        return wire.AccountResponse(account=self._server.signer.account(account))

    def _naming(self, caller: NodeName) -> list[tuple[bytes, str]]:
        """Digest and name of every run that names the caller, oldest first."""
        record, found = self._server.record, []
        for digest, run in record.rows():
            if digest not in self._members:
                self._members[digest] = record.members(digest)
            if caller in self._members[digest]:
                found.append((digest, run))
        return found

    def _run(self, digest: bytes, run: str, caller: NodeName) -> wire.AccountedRun:
        store = self._server.store
        store.require_whole(run)
        openings, ended = store.counts(run).mine, store.ended(run)
        if caller.role is Role.coordinator:  # whoever leads a run has every sum of it
            rounds = openings
        else:
            last = store.last_with(run, caller.name)
            rounds = 0 if last is None else last + 1
        end = None if ended is None or store.lost(run) else self._server.signer.end(digest, ended, store.word(run))
        return wire.AccountedRun(manifest_digest=digest, run=run, openings=openings, rounds=rounds, end=end)

    def _manifest(self, known: list[tuple[bytes, str]], digest: bytes) -> bytes:
        if not any(each == digest for each, _ in known):
            shown = digest[:DIGEST_BYTES].hex()
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED, f"manifest {shown} is not in the caller's account", "ask for another"
            )
        return self._server.record.canonical(digest)
