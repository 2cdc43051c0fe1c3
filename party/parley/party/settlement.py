"""Giving back what was provably not spent: of a run that has ended by the word of both its aggregators.

Also of runs that this party has left, and of those whose end nobody could prove when it came: they are asked about at
every start, from time to time while the process runs, and by `parley party settle`.
"""

import contextlib
import threading
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

import grpc

from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.names import NodeName, Role
from parley.node import logs
from parley.node.endings import verify_ends
from parley.node.pins import Pins
from parley.node.refusals import RefusedCallError
from parley.party.admission import Gate
from parley.party.data import Shelf
from parley.party.ends import keep
from parley.party.outbox import ENDED, JOINED, LEFT, SETTLED, RunState
from parley.party.settings import Settings
from parley.party.wire import GRACE_SECONDS, Wire
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.ledger import EndProof
from parley.privacy.put_back import NO_ACCOUNT
from parley.v1 import common_pb2, coordinator_pb2

log = logs.logger()
WAIT_SECONDS = 5.0
State = coordinator_pb2.NextRoundResponse


@dataclass(frozen=True)
class Outcome:
    """What became of one run that was open."""

    run: str
    settled: bool
    reason: str
    """Where it was not: who does not say what."""


def settle(gate: Gate, manifest: Manifest, ends: Sequence[common_pb2.SignedEnd], pins: Pins) -> None:
    """Give back what the proof allows; a FederationError where there is none. Repeating it is free.

    The proof is kept in the party's folder for whoever asks. A server that was restored since it admitted the run
    proves nothing.
    """
    ledger, words = gate.ledger, gate.outbox.words(manifest.digest)
    openings = verify_ends(ends, manifest, pins, words)
    ledger.verify()
    charged = gate.charged_as(manifest.digest)
    if charged is None:
        raise LedgerRefusedError(f"this manifest of run {manifest.run} was not charged here: nothing is given back")
    if charged.ended:
        return

    def check(proof: EndProof) -> None:
        said = coordinator_pb2.NextRoundResponse.FromString(proof.evidence).ends
        if proof.run != manifest.run or verify_ends(said, manifest, pins, words) != proof.releases:
            raise LedgerRefusedError(
                f"the evidence is not of {proof.releases} sums of run {manifest.run}: ask for it again"
            )

    evidence = coordinator_pb2.NextRoundResponse(ends=ends).SerializeToString()
    keep(gate.settings.state, manifest.run, evidence)
    # A round is answered before it is opened, and the next one is asked after: of the last, nothing may be opened.
    ledger.settle(EndProof(manifest.run, openings, "signed-ends", evidence), check, pending=1)


def still_open(gate: Gate, joined: bool = False) -> list[RunState]:
    """Runs that are charged, not settled, and not answered any more; with `joined` also those that may be.

    By their manifests: a decoy of the same name may have ended with nothing opened.
    """
    gate.ledger.verify()
    states = (ENDED, LEFT, SETTLED, JOINED) if joined else (ENDED, LEFT)
    found = [(held, gate.charged_as(held.digest)) for held in gate.outbox.runs() if held.state in states]
    return [held for held, charged in found if charged is not None and not charged.ended]


def settle_open(
    gate: Gate, wire: Wire, runs: Sequence[RunState], stop: threading.Event, manifests: MutableMapping[bytes, Manifest]
) -> list[Outcome]:
    """Ask their coordinator once for the end of each. `manifests` has those that are parsed already, and then all."""
    found = []
    for held in runs:
        if of_an_earlier_version(held.manifest):
            found.append(Outcome(held.run, False, "it is of an earlier version of parley, which alone can settle it"))
            continue
        manifest = manifests.get(held.digest)
        if manifest is None:
            manifest = manifests[held.digest] = Manifest.from_canonical(held.manifest)
        try:
            reason = _asked(gate, wire, manifest, stop)
        except (FederationError, LedgerRefusedError) as error:
            reason = str(error)
        if not reason:
            log.info("the run is settled", run=held.run)
            gate.note(manifest, SETTLED, "settled afterwards")
        found.append(Outcome(held.run, not reason, reason))
    return found


def settle_now(settings: Settings, which: str | None) -> list[Outcome]:
    """For a person at the node, whose process may be running: one run, or all that are charged and not settled."""
    node = settings.identity.load().name
    targets = {NodeName(node.federation, Role.coordinator, settings.coordinator): settings.coordinator_address}
    with (
        contextlib.closing(Gate(settings, node, Shelf(settings))) as gate,
        contextlib.closing(Wire(settings.identity, targets)) as wire,
    ):
        if gate.ledger.waits_for_account:
            raise LedgerRefusedError(NO_ACCOUNT)
        runs = [held for held in still_open(gate, joined=True) if which in (None, held.run)]
        if which is not None and not runs:
            raise RefusedCallError(common_pb2.REFUSAL_NOT_ADMITTED, f"run {which} is not open here", "see its status")
        return settle_open(gate, wire, runs, threading.Event(), {})


def _asked(gate: Gate, wire: Wire, manifest: Manifest, stop: threading.Event) -> str:
    """Why it stays open; empty where it is settled."""
    last = gate.outbox.last(manifest.digest)
    request = coordinator_pb2.NextRoundRequest(
        manifest_digest=manifest.digest, after_round=last.round_index if last else -1, wait_seconds=WAIT_SECONDS
    )
    coordinator = NodeName(manifest.federation, Role.coordinator, manifest.coordinator.name)
    if coordinator not in wire.stubs:
        return f"{coordinator} is not this party's coordinator any more"
    try:
        with wire.stopping(stop):
            answer = wire.stubs[coordinator].NextRound(request, timeout=WAIT_SECONDS + GRACE_SECONDS)
    except grpc.RpcError as error:
        return str(wire.described(error, coordinator))
    if answer.state != State.STATE_ENDED:
        return "the coordinator says that the run has not ended"
    settle(gate, manifest, answer.ends, wire.identity.pins)
    return ""
