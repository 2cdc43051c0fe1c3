"""What this server tells a node that was restored: every run that names it and that was ever admitted here, signed.

From the record of admissions, which forgets nothing, and the store of openings: runs that have ended, were withdrawn,
never began, or are such that this server would refuse them today are all in it. Where either of the two cannot be read,
there is no account.
"""

from parley.aggregator.refusals import CallRefusedError, CallWaitsError, malformed
from parley.aggregator.server import Server
from parley.federation.errors import ApprovalError
from parley.federation.names import NodeName, Role
from parley.federation.rounds import DIGEST_BYTES
from parley.node.accounts import MOST_RUNS, NONCE_BYTES
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import common_pb2


class Accounts:
    """Of one server; asked from worker threads."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def answer(self, caller: NodeName, request: wire.AccountRequest) -> wire.AccountResponse:
        """A part of the caller's account, or a manifest that is in it."""
        try:
            known = self._server.naming(caller)
        except ApprovalError as error:
            raise CallWaitsError("the record of admissions cannot be read", str(error)) from None
        if request.manifest_digest:
            return wire.AccountResponse(manifest=self._manifest(known, request.manifest_digest))
        if len(request.nonce) != NONCE_BYTES:
            raise malformed(f"a nonce of {len(request.nonce)} bytes", f"draw {NONCE_BYTES}")
        account = wire.Account(
            aggregator=self._server.name.uri,
            caller=caller.uri,
            nonce=request.nonce,
            offset=request.offset,
            total=len(known),
            runs=[self._run(*row[:2], caller) for row in known[request.offset : request.offset + MOST_RUNS]],
            restored=[
                wire.Restoration(restored=each.word, made=each.made, at=each.at)
                for each in self._server.store.restorations()
            ],
        )
        return wire.AccountResponse(account=self._server.signer.account(account))

    def _run(self, digest: bytes, run: str, caller: NodeName) -> wire.AccountedRun:
        store = self._server.store
        counts, ended = store.counts(run), store.ended(run)
        store.require_whole(run)
        count, rounds = store.contributed(run, caller.name)
        if caller.role is Role.coordinator:  # whoever leads a run has every sum of it
            count, rounds = counts.mine, counts.mine
        end = None if ended is None or store.lost(run) else self._server.signer.end(digest, ended, store.word(run))
        return wire.AccountedRun(
            manifest_digest=digest, run=run, openings=counts.mine, contributed=count, rounds=rounds, end=end
        )

    @staticmethod
    def _manifest(known: list[tuple[bytes, str, bytes]], digest: bytes) -> bytes:
        found = [data for each, _, data in known if each == digest]
        if not found:
            shown = digest[:DIGEST_BYTES].hex()
            raise CallRefusedError(
                common_pb2.REFUSAL_NOT_ADMITTED,
                f"manifest {shown} is in no account of the caller",
                "ask for one that is",
            )
        return found[0]
