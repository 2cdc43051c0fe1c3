"""What a party did, held against what its files say: a part of its state that is missing or older is no fresh start.

Ledger, outbox, admissions and trail are written in this order of a round: outbox, ledger, trail. So whatever a later
one has, the earlier ones have; where they have not, some of them were lost or put back to an old state. A whole folder
that is put back agrees with itself: that is found by what the aggregators have of this party (`Recollection`), each for
itself, so that one that forgets hides nothing that the other one tells.
"""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import grpc

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import logs
from parley.party.errors import OutboxError, StoppedError, refused
from parley.party.outbox import Outbox
from parley.party.settings import Settings
from parley.party.wire import GRACE_SECONDS, Pauses, Wire
from parley.privacy.errors import LedgerCorruptError
from parley.privacy.ledger import Ledger
from parley.privacy.store import opened_to_read
from parley.v1 import aggregator_pb2

log = logs.logger()
RECALL_SECONDS = 20.0
MOST_RECALLED = 100_000
"""Runs: more than a node ever takes part in, and little memory."""
BACK = (
    "put back the newest copy of the whole folder `state`; where there is none, what these records have cost is not "
    "known any more, and this node answers nothing"
)


def require_ledger(settings: Settings) -> None:
    """Before an empty one is made: nothing here may say that there was one."""
    name = settings.ledger.name
    beside = [settings.ledger.with_name(name + each) for each in (".salt", ".head")]
    found = [path.name for path in beside if path.exists() and not _unfinished(path)]
    found += [
        path.name
        for path, query in (
            (settings.outbox, "SELECT EXISTS (SELECT 1 FROM answers) OR EXISTS (SELECT 1 FROM runs)"),
            (settings.admissions, "SELECT EXISTS (SELECT 1 FROM admissions)"),
        )
        if _holds(path, query)
    ]
    if settings.trail.exists() and b'"event":"run.' in settings.trail.read_bytes():
        found.append(settings.trail.name)
    if found:
        raise LedgerCorruptError(f"{name} is missing, and {', '.join(found)} beside it tell of runs: {BACK}")


def _unfinished(path: Path) -> bool:
    """Of a creation that a crash cut short: the head says that there is no entry yet, and the salt goes with it."""
    head = path.with_name(path.name.rsplit(".", 1)[0] + ".head")
    return head.exists() and head.read_bytes().startswith(b"0:")


def _holds(path: Path, query: str) -> bool:
    """Whether a database has such rows; one that cannot be read may have."""
    if not path.exists() or not path.stat().st_size:
        return False
    try:
        with closing(opened_to_read(path)) as database:
            return bool(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError as error:
        return "no such table" not in str(error)
    except sqlite3.Error:
        return True


def require_agreement(ledger: Ledger, outbox: Outbox, trail: Path) -> None:
    """Ledger, outbox and trail tell one story; else one of them is older than the others."""
    head = ledger.verify()
    answered: dict[str, dict[int, bytes]] = {}
    for held in outbox.runs():
        # One name may have several manifests here: whoever proposes runs can send more, which were refused.
        answered.setdefault(held.run, {}).update(outbox.uploads(held.digest))
    for name, rounds in answered.items():
        if rounds and name not in ledger.runs:
            raise LedgerCorruptError(
                f"the outbox has answers to run {name}, and the ledger has no charge for it: {BACK}"
            )
    for run in ledger.runs.values():
        rounds = answered.get(run.name, {})
        lost = [index for index, upload in run.recorded.items() if rounds.get(index, b"").hex() != upload]
        if lost:
            raise OutboxError(f"the ledger has round {lost[0]} of run {run.name}, and the outbox does not: {BACK}")
    told, charged = _told(trail)
    if charged > head.sequence:
        raise LedgerCorruptError(
            f"the trail tells of the ledger's entry {charged}, and it ends with {head.sequence}: {BACK}"
        )
    for name, index, upload in told:
        if answered.get(name, {}).get(index, b"").hex() != upload:
            raise OutboxError(f"the trail has round {index} of run {name}, and the outbox does not: {BACK}")


def _told(trail: Path) -> tuple[list[tuple[str, int, str]], int]:
    """Rounds that the trail says were answered, and the newest entry of the ledger that it knows."""
    found: list[tuple[str, int, str]] = []
    charged = 0
    if not trail.exists():
        return found, charged
    try:
        with trail.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # of a crash; whoever appends to it verifies and mends it
                if b'"event":"round.answered"' in line:
                    fields = json.loads(line)["fields"]
                    found.append((fields["run"], fields["round"], fields["upload"]))
                elif b'"event":"run.charged"' in line:
                    charged = max(charged, json.loads(line)["fields"]["sequence"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutboxError(f"{trail.name} cannot be read ({type(error).__name__}): {BACK}") from None
    return found, charged


class Recollection:
    """What the aggregators have of this party: asked once in a process of each, before the first answer of a run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[NodeName, dict[bytes, tuple[str, int]]] = {}

    def require(self, manifest: Manifest, outbox: Outbox, ledger: Ledger, wire: Wire, stop: threading.Event) -> None:
        """A refusal where either of the run's servers has an answer that this outbox has not, and that no account of
        the servers has told of since.
        """
        for server in manifest.identities(Role.aggregator):
            with self._lock:
                if server not in self._known:
                    self._known[server] = _recalled(server, wire, stop)
                recalled = self._known[server]
            for digest, (name, newest) in recalled.items():
                last = outbox.last(digest)
                known = max(last.round_index if last else -1, ledger.accounted.get(digest.hex(), 0) - 1)
                if known < newest:
                    log.error(
                        "this party was put back to an old state, run parley restore --account",
                        run=name, round=newest, peer=server,
                    )  # fmt: skip
                    raise refused("policy", "this party takes no part", "its operator has to restore its newest state")


def _recalled(server: NodeName, wire: Wire, stop: threading.Event) -> dict[bytes, tuple[str, int]]:
    """Without this server no round is answered either, so that it is waited for."""
    found: dict[bytes, tuple[str, int]] = {}
    offset, said, backoff = 0, "", Pauses(stop)
    while not stop.is_set():
        try:
            with wire.stopping(stop):
                answer = wire.stubs[server].Recall(
                    aggregator_pb2.RecallRequest(offset=offset), timeout=RECALL_SECONDS + GRACE_SECONDS
                )
        except grpc.RpcError as error:
            problem = wire.described(error, server)
            if str(problem) != said:
                said = str(problem)
                log.warning("an aggregator does not say what it has of this party", peer=server, error=problem)
            backoff.pause()
            wire.refresh()
            continue
        found |= {each.manifest_digest: (each.run, each.last_round) for each in answer.runs}
        if answer.next <= offset or len(found) > MOST_RECALLED:
            return found
        offset = answer.next
    raise StoppedError("this process is ending")
