"""One aggregation server: what all of its runs share, from its folder."""

from collections.abc import Sequence
from concurrent import futures

import grpc

from parley.aggregator.admission import Admissions
from parley.aggregator.noise import Doors, Noise, Ways
from parley.aggregator.opening import Aggregator
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.peer import Dialler
from parley.aggregator.refusals import CallWaitsError
from parley.aggregator.signer import Signer
from parley.aggregator.spool import Room
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import EvidenceFileError, FederationError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc.errors import PeerCheatedError, PeerClosedError
from parley.mpc.evidence import Evidence
from parley.mpc.tables import load
from parley.node.connections import KEEPALIVE
from parley.node.docket import Docket, Pair
from parley.node.errors import NodeError, NodeFileError
from parley.node.evidence import EvidenceFolder, Held, Newest
from parley.node.node_file import AggregatorNode
from parley.node.notes import notes
from parley.node.revoked_lists import RevokedLists
from parley.node.trail import says
from parley.node.transport import InUse, RenewedChannel

OPENINGS_FILE = "openings.sqlite"
MOST_UPLOAD_BYTES = 1 << 30
OPENING_SECONDS = 10.0
MOST_OPENINGS = 32
"""At once; each takes a thread."""


class PeerChannel(RenewedChannel):
    """Server A's connection to B, for conversations."""

    def __call__(self) -> grpc.Channel:
        try:
            return super().__call__()
        except FederationError as error:
            raise PeerClosedError(f"the other server is not dialled: {error}") from None


class Server:
    """Server A, which dials, or B."""

    def __init__(self, node: AggregatorNode) -> None:
        in_use = InUse(node.identity)
        self.name, self.role = in_use().name, node.index
        if self.name.role is not Role.aggregator:
            raise NodeError(f"identity is {self.name}'s: install an aggregator's certificate in {node.identity.path}")
        self.note = notes(node)
        """An event and public facts, for the log and the audit trail, whose id of it comes back."""
        self.peer = NodeName(self.name.federation, Role.aggregator, node.peer_name)
        if self.peer == self.name:
            raise NodeFileError("peer.name", "is this server itself: name the other one")
        self.record = AdmissionRecord(node.admissions)
        self.store = OpeningStore(node.state / OPENINGS_FILE)
        self.pair: Pair = (self.name, self.peer) if self.role == 0 else (self.peer, self.name)
        self._folder = EvidenceFolder(node.state)
        self._newest = Newest(self._folder)
        self._open: tuple[Manifest, ...] = ()
        """Runs with joint noise that are not over, as last looked at."""
        self._over: set[str] = set()
        self.docket = Docket(
            self._folder,
            lambda: in_use().pins,
            lambda: (self.pair,),
            lambda server: [run.run for run in self._open],
            lambda held: None,  # a server has no ledger
            self.note,
            lambda digest: says(node.trail, "evidence.kept", digest),
        )
        self.admissions = Admissions(
            record=self.record,
            identity=in_use,
            peer=self.peer,
            role=self.role,
            offered=node.noise,
            policy_path=node.policy,
            verified=node.verified,
            note=self.note,
            pending=self.pending,
        )
        self.restored = past[-1].word if (past := self.store.restorations()) else b""
        """Of the newest time that this server was restored from a backup."""
        self.signer = Signer(self.role, in_use, self.restored)
        self.lists = RevokedLists(node.identity)
        self.room = Room(node.state, MOST_UPLOAD_BYTES)
        dialled = node.peer_address
        self._channel = PeerChannel(str(dialled), node.identity, self.peer, KEEPALIVE) if dialled else None
        self.dial = Dialler(self._channel) if self._channel else None
        """On server A: how it reaches B."""
        noise = node.noise
        self.doors = Doors(lambda: self.noise.wanted)
        """On server B: noise sessions that A has dialled."""
        ways = Ways(
            role=self.role,
            dialled=self._channel,
            doors=self.doors,
            signing=lambda: self.signer.signing(self.peer, self.pair),
            keep=self._keep,
            hold=self.docket.hold,
            note=self.note,
        )
        tables = load(noise.cover, noise.precision)
        self.noise = Noise(ways, tables, noise.capacity, self.pending, self._cheated, noise.workers)
        self.opener = Aggregator(
            self.role, self.noise.plain, self.store, OPENING_SECONDS, self.noise.covert if noise.capacity else None
        )
        self.workers: futures.Executor = futures.ThreadPoolExecutor(MOST_OPENINGS, "opening")

    def _evidence(self) -> Sequence[Held]:
        """Against the other server; where it cannot be read nothing is begun and nothing opened."""
        try:
            return self._newest.all()
        except EvidenceFileError as error:
            raise CallWaitsError("this server's evidence cannot be read", str(error)) from None

    def pending(self) -> list[Held]:
        """What its operator has not answered."""
        return [held for held in self._evidence() if held.pending]

    def follow(self) -> None:
        """Which runs are open, as its books have it now: a person may have admitted or withdrawn one meanwhile."""
        runs = [run for run in self.admissions.runs() if run.noise.parts.joint and run.run not in self._over]
        over = {run.run for run in runs if self.store.ended(run.run) is not None or self.store.lost(run.run)}
        self._over |= over
        self._open = tuple(run for run in runs if run.run not in over and self.held_against(run) is None)
        self.noise.follow(self._open)

    def lost(self, manifest_digest: bytes) -> bool:
        """Whether it is of a run that was open when the backup was made that this server comes from."""
        manifest = self.admissions.manifest(manifest_digest, ending=True)
        return manifest is not None and self.store.lost(manifest.run)

    def held_against(self, manifest: Manifest) -> Held | None:
        """Evidence because of which nothing more of the run is opened.

        For good where it was open when the evidence came; until the operator has answered where noise is joint at all.
        """
        for held in self._evidence():
            if manifest.run in held.runs or (held.pending and manifest.noise.parts.joint):
                return held
        return None

    def pieces(self, known: Sequence[bytes], most: int) -> list[bytes]:
        """Of the evidence that this server holds, some that the caller does not; the newest first."""
        kept = [held.digest for held in reversed(self._evidence()) if bytes.fromhex(held.digest) not in known]
        return [self._folder.read(digest) for digest in kept[:most]]

    def _keep(self, evidence: Evidence) -> None:
        """Before the session closes. What was open then ends: later runs wait for the operator."""
        self.docket.made(evidence)

    def _cheated(self, error: PeerCheatedError) -> None:
        """A noise session that honest servers would not have come to; in the trail by the error's name."""
        self.note("noise.refused", error=error, peer=self.peer, kind=type(error).__name__)

    def close(self) -> None:
        """Once nobody calls any more, and the pool has stopped."""
        if self._channel is not None:
            self._channel.close()
        self.workers.shutdown(wait=False, cancel_futures=True)
        self.store.close()
        self.record.close()
