"""What surrounds a party in an attack: a coordinator that says what it is told to, two servers whose halves are added.

All in this process, on loopback with TLS 1.3 and certificates of a throw-away authority; the party is the product's own
`PartyClient` on a folder of its own. What the two halves add up to, without noise, is what the attacker is not to see
and this file shows, so that it can be compared with what the claim allows.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import numpy as np
from numpy.typing import NDArray

from parley.attacks import documents
from parley.attacks.documents import FEDERATION, LEAD, PARTY, SERVERS
from parley.attacks.words import Signed
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.federation.rounds import commitment_b, numbers_in, point_digest, upload_digest
from parley.mpc.ring import expand, signed
from parley.node.authority import ThrowAwayAuthority
from parley.node.endings import sign_admission
from parley.node.relay import Keys
from parley.node.transport import server_credentials
from parley.party.client import PartyClient
from parley.party.process import party_node, settings_of
from parley.party.questions import digest_of
from parley.party.record_check import seal_node
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, coordinator_pb2, coordinator_pb2_grpc

PATIENCE_SECONDS = 240.0
State = coordinator_pb2.NextRoundResponse


def manifest(records: int, algorithm: str, norm: float, noise: float, steps: int) -> Manifest:
    """Of two parties, each of whose records is in every round."""
    sampler = {"kind": "wor", "units": records, "batch": records}
    return documents.manifest(
        **{
            "algorithm.name": algorithm,
            "mechanism.clip.norm": norm,
            "mechanism.noise_multiplier": noise,
            "mechanism.steps": steps,
            "parties.0.sampler": sampler,
            "parties.1.sampler": sampler,
            "noise.fraction_bits": 16,
        }
    )


def question(made: Manifest, index: int, points: Sequence[NDArray[np.float64]], kind: str, local: Any = None) -> Any:
    """A round's question, with its digest."""
    datas = [np.asarray(point, "<f8").tobytes() for point in points]
    asked = coordinator_pb2.Round(
        index=index,
        kind=kind,
        scale=1.0,
        points=[coordinator_pb2.Point(digest=point_digest(data), data=data, size=len(data)) for data in datas],
        length=made.model.dimension,
        local=local,
    )
    asked.query_digest = digest_of(asked, made.digest)
    return asked


class Coordinator(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """Offers one manifest and asks what it is told to."""

    def __init__(self, made: Manifest) -> None:
        self.manifest = made
        self.asked: Any = None
        self.queries: dict[int, bytes] = {}
        self.joins: list[Any] = []
        self.words: list[Any] = []
        """Of admission, of both servers."""
        self.signed: Signed
        """What both state of the rounds before."""
        self.uploads: dict[int, bytes] = {}
        """The digests of the party's own, as honest servers state them."""

    def ListRuns(self, request: Any, context: Any) -> Any:
        if hashlib.sha256(self.manifest.canonical).digest() in request.known_digests:
            _pause(context, lambda: False, request.wait_seconds)
            return coordinator_pb2.ListRunsResponse()
        return coordinator_pb2.ListRunsResponse(manifests=[self.manifest.canonical])

    def Join(self, request: Any, context: Any) -> Any:
        self.joins.append(request)
        return coordinator_pb2.JoinResponse()

    def NextRound(self, request: Any, context: Any) -> Any:
        def fresh() -> bool:
            return self.asked is not None and self.asked.index != request.after_round

        if not _pause(context, fresh, request.wait_seconds):
            return State(state=State.STATE_WAIT)
        index, stated = self.asked.index, self.signed
        while len(stated.words[0]) < index:
            over = len(stated.words[0])
            stated.state(self.queries[over], {PARTY.name: self.uploads[over]})
        statements = [*stated.of(0, index - 1), *stated.of(1, index - 1)] if index else []
        return State(state=State.STATE_ROUND, round=self.asked, admissions=self.words, statements=statements)

    @property
    def refusal(self) -> str:
        """Why the party takes no part, once it says so."""
        return next((join.reason for join in self.joins if not join.accepted), "")


@dataclass
class Server(aggregator_pb2_grpc.ShareServiceServicer):
    """One aggregation server that keeps what it is sent."""

    role: int
    other: "Server | None" = None
    halves: dict[int, bytes] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    """Of whole uploads."""
    keys: Keys = field(default_factory=Keys)

    def Recall(self, request: Any, context: Any) -> Any:
        return aggregator_pb2.RecallResponse()

    def Statements(self, request: Any, context: Any) -> Any:
        return aggregator_pb2.StatementsResponse()

    def Upload(self, request: Any, context: Any) -> Any:
        words = (request.query_digest, request.commitment_a, request.commitment_b)
        digest = upload_digest(request.manifest_digest, request.round, PARTY.uri, *words)
        self.digests[request.round] = digest
        self.halves[request.round] = request.data
        if request.relay_key:
            self.keys.hold(PARTY.name, request.round, request.relay_key)
        if request.relayed and self.other is not None:
            half = self.other.keys.open(PARTY.name, request.round, digest, request.relayed)
            if half is not None and commitment_b(half) == request.commitment_b:
                self.other.halves[request.round] = half
        return aggregator_pb2.UploadResponse(received=len(request.data), complete=True)


class Surroundings:
    """A party's node and everybody that it talks to, until the block is left."""

    def __init__(self, folder: Path, made: Manifest, records: Sequence[str]) -> None:
        """`records` are lines of age, pulse, sick."""
        self.manifest, self.node = made, folder / "party"
        self.coordinator = Coordinator(made)
        self.b = Server(1)
        self.a = Server(0, self.b)
        self._servers: list[grpc.Server] = []
        authority = ThrowAwayAuthority(FEDERATION)
        add_coordinator = coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server
        add_server = aggregator_pb2_grpc.add_ShareServiceServicer_to_server
        ports = [
            self._serve(authority, folder, name, add, servicer)
            for name, add, servicer in (
                (LEAD, add_coordinator, self.coordinator),
                (SERVERS[0], add_server, self.a),
                (SERVERS[1], add_server, self.b),
            )
        ]
        authority.install(self.node / "identity", PARTY)
        signers = {name: authority.issue_as(name) for name in SERVERS}
        self.coordinator.words = [sign_admission(signer, made.digest) for signer in signers.values()]
        self.coordinator.signed, self.coordinator.uploads = Signed(made, signers), self.a.digests
        (self.node / "policy.toml").write_text(documents.policy_text(algorithms=[made.algorithm.name]))
        (self.node / "records.csv").write_text("age,pulse,sick\n" + "\n".join(records) + "\n")
        documents.write_party(self.node, {"north": ports[1], "south": ports[2]}, ports[0])
        (self.node / "schema.toml").write_text(documents.schema_text(len(records)))
        seal_node(self.node)
        self._client = PartyClient(settings_of(party_node(self.node)))
        self._thread = threading.Thread(target=self._client.serve)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._thread.join(PATIENCE_SECONDS)
        for server in self._servers:
            server.stop(0)

    def ask(self, asked: Any) -> NDArray[np.int64] | None:
        """What both halves of the answer add up to; None where the party leaves without one."""
        self.coordinator.queries[asked.index] = asked.query_digest
        self.coordinator.asked = asked
        index, ends = asked.index, time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends:
            if index in self.a.halves and index in self.b.halves:
                bits = self.manifest.share_bits
                share = numbers_in(self.a.halves[index], asked.length, bits)
                return signed(share + expand(self.b.halves[index], len(share)), bits)
            if self.coordinator.refusal:
                return None
            time.sleep(0.01)
        raise TimeoutError(f"round {index} was neither answered nor refused")

    def left(self) -> bool:
        """Whether the party has left, if it is given time to."""
        ends = time.monotonic() + 1.0
        while not self.coordinator.refusal and time.monotonic() < ends:
            time.sleep(0.01)
        return bool(self.coordinator.refusal)

    def _serve(
        self, authority: ThrowAwayAuthority, folder: Path, name: NodeName, add: Callable[..., None], servicer: Any
    ) -> int:
        identity = authority.install(folder / name.name, name)
        server = grpc.server(futures.ThreadPoolExecutor(8))
        add(servicer, server)
        port: int = server.add_secure_port("127.0.0.1:0", server_credentials(identity))
        server.start()
        self._servers.append(server)
        return port


def _pause(context: Any, ready: Callable[[], bool], seconds: float) -> bool:
    """A long poll."""
    ends = time.monotonic() + min(seconds, PATIENCE_SECONDS)
    while time.monotonic() < ends and context.is_active():
        if ready():
            return True
        time.sleep(0.01)
    return False
