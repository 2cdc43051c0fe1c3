"""What a server that does as a test says tells of a node that was restored, signed."""

from collections.abc import Callable, Sequence
from typing import Any

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.node.accounts import MOST_RUNS, sign_account
from parley.node.credentials import Identity
from parley.node.endings import sign_end
from parley.v1 import aggregator_pb2

Run = tuple[Manifest, int, bool]
"""Of the caller: in how many rounds it is, and whether the run has ended."""


def accounted(
    identity: Identity, caller: NodeName, request: Any, runs: Sequence[Run],
    restored: Sequence[tuple[int, int]] = (), spoil: Callable[[Any], Any] = lambda account: account,
) -> Any:  # fmt: skip
    """The answer; `restored` says when this server's backups were made and put back, `spoil` what is signed instead."""
    if request.manifest_digest:
        found = [made.canonical for made, *_ in runs if made.digest == request.manifest_digest]
        return aggregator_pb2.AccountResponse(manifest=found[0])
    account = aggregator_pb2.Account(
        aggregator=identity.name.uri, caller=caller.uri, nonce=request.nonce, offset=request.offset, total=len(runs),
        runs=[
            aggregator_pb2.AccountedRun(
                manifest_digest=made.digest, run=made.run, openings=rounds, rounds=rounds,
                end=sign_end(identity, made.digest, rounds) if ended else None,
            )
            for made, rounds, ended in runs[request.offset : request.offset + MOST_RUNS]
        ],
        restored=[aggregator_pb2.Restoration(restored=bytes(16), made=made, at=at) for made, at in restored],
    )  # fmt: skip
    return aggregator_pb2.AccountResponse(account=sign_account(identity, spoil(account)))
