"""The aggregators' signed ends of runs that were settled, NODE/state/ends: what an institution shows to whoever asks.

Each file holds exactly the bytes whose SHA-256 the ledger's entry has, so that nobody can exchange it unseen.
"""

import hashlib
from pathlib import Path

from google.protobuf.message import DecodeError

from parley.node import logs
from parley.privacy.durable import replace_durably
from parley.v1 import common_pb2, coordinator_pb2

FOLDER = "ends"
log = logs.logger()


def keep(state: Path, run: str, evidence: bytes) -> None:
    """On disk when it returns, or a line in the log says why not: a full disk keeps no budget from coming back."""
    folder = state / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_durably(folder / hashlib.sha256(evidence).hexdigest(), evidence)
    except OSError as error:
        log.warning("the signed ends are not kept", run=run, error=error)


def kept(state: Path, digest: str) -> tuple[common_pb2.SignedEnd, ...]:
    """Those that a ledger was settled on, by the digest in its entry; none where they are gone, or are others."""
    try:
        evidence = (state / FOLDER / digest).read_bytes()
        if hashlib.sha256(evidence).hexdigest() != digest:
            return ()
        return tuple(coordinator_pb2.NextRoundResponse.FromString(evidence).ends)
    except (OSError, DecodeError):
        return ()
