"""One aggregation server: what all of its runs share, from its folder."""

import queue
from concurrent import futures

import grpc

from parley.aggregator.admission import Admissions
from parley.aggregator.grpc_link import GrpcLink, dial
from parley.aggregator.opening import Aggregator
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.peer import Dialler
from parley.aggregator.pool import NoisePool
from parley.aggregator.signer import Signer
from parley.aggregator.uploads import Memory
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import FederationError
from parley.federation.names import NodeName, Role
from parley.mpc.channel import Link
from parley.mpc.errors import PeerCheatedError, PeerClosedError
from parley.mpc.tables import load
from parley.node.connections import KEEPALIVE
from parley.node.errors import NodeError, NodeFileError
from parley.node.node_file import AggregatorNode
from parley.node.notes import notes
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
        self._record = AdmissionRecord(node.admissions)
        self.store = OpeningStore(node.state / OPENINGS_FILE)
        self.admissions = Admissions(
            record=self._record,
            identity=in_use,
            peer=self.peer,
            role=self.role,
            offered=node.noise,
            policy_path=node.policy,
            verified=node.verified,
            note=self.note,
        )
        self.signer = Signer(self.role, in_use)
        self.memory = Memory(MOST_UPLOAD_BYTES)
        self.accepted: queue.SimpleQueue[GrpcLink | None] = queue.SimpleQueue()
        """On server B: noise sessions that A has dialled."""
        dialled = node.peer_address
        self._channel = PeerChannel(str(dialled), node.identity, self.peer, KEEPALIVE) if dialled else None
        self.dial = Dialler(self._channel) if self._channel else None
        """On server A: how it reaches B."""
        noise = node.noise
        self.pool = NoisePool(
            self._link, self.role, load(noise.cover, noise.precision), noise.capacity, cheated=self._cheated
        )
        self.opener = Aggregator(self.role, self.pool, self.store, OPENING_SECONDS)
        self.workers: futures.Executor = futures.ThreadPoolExecutor(MOST_OPENINGS, "opening")

    def _link(self) -> Link:
        """For the next noise session."""
        if self._channel is not None:
            return dial(self._channel())
        link = self.accepted.get()
        if link is None:
            raise PeerClosedError("this server is stopping")
        return link

    def _cheated(self, error: PeerCheatedError) -> None:
        """A noise session that honest servers would not have come to; in the trail by the error's name."""
        self.note("noise.refused", error=error, peer=self.peer, kind=type(error).__name__)

    def close(self) -> None:
        """Once nobody calls any more, and the pool has stopped."""
        if self._channel is not None:
            self._channel.close()
        self.workers.shutdown(wait=False, cancel_futures=True)
        self.store.close()
        self._record.close()
