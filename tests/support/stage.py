"""A party's surroundings for tests: a coordinator that says what it is told to and two aggregators, on loopback TLS."""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from parley.attacks.documents import write_party
from parley.attacks.words import Signed
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import BLIND_BYTES, PIECE_BYTES, commitment_a, commitment_b, point_digest, upload_digest
from parley.learning.fit import Fit
from parley.mpc.ring import expand
from parley.node.authority import ThrowAwayAuthority
from parley.node.authorization import peer_of
from parley.node.credentials import Identity, NodeFolder
from parley.node.endings import sign_admission, sign_end
from parley.node.relay import Keys
from parley.node.transport import server_credentials
from parley.party.questions import digest_of
from parley.party.record_check import seal_node
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, coordinator_pb2, coordinator_pb2_grpc
from tests.support.accounted import accounted
from tests.support.documents import PARTY_POLICY, SCHEMA
from tests.support.until import until

Response = aggregator_pb2.UploadResponse
State = coordinator_pb2.NextRoundResponse
PARTY, LEAD = NodeName("cardio", Role.party, "hospital-a"), NodeName("cardio", Role.coordinator, "lead")
NORTH, SOUTH = NodeName("cardio", Role.aggregator, "north"), NodeName("cardio", Role.aggregator, "south")


def question(manifest: Manifest, index: int, points: Sequence[NDArray[np.float64]], **changes: Any) -> Any:
    """A round's question with the right digest, unless one is given."""
    wrong = changes.pop("query_digest", None)
    datas = [np.asarray(point, "<f8").tobytes() for point in points]
    made = coordinator_pb2.Round(
        index=index,
        kind="gradient",
        scale=1.0,
        points=[coordinator_pb2.Point(digest=point_digest(data), data=data, size=len(data)) for data in datas],
        length=manifest.model.dimension,
    )
    for name, value in changes.items():
        if name == "local":
            made.local.CopyFrom(value)
        else:
            setattr(made, name, value)
    made.query_digest = wrong or digest_of(made, manifest.digest)
    return made


class Coordinator(coordinator_pb2_grpc.CoordinatorServiceServicer):
    """Offers manifests and asks what a test puts in `current`."""

    def __init__(self) -> None:
        self.manifests: list[bytes] = []
        self.joins: list[Any] = []
        self.requests: list[Any] = []
        self.current: Any = None
        self.only: bytes | None = None
        """Of which run `current` is; of any that asks without one."""
        self.repeat = False
        """Ask for rounds that were acknowledged, too."""
        self.points: dict[bytes, bytes] = {}
        self.deaf = 0
        self.words: Callable[[bytes], list[Any]] = lambda digest: []
        """Of admission, that it has of both aggregators."""
        self.asked: dict[int, bytes] = {}
        """Digest of each round's question."""
        self.stated: Callable[[int], list[Any]] = lambda index: []
        self.changed = threading.Condition()

    def say(self, response: Any) -> None:
        with self.changed:
            self.current = response
            self.changed.notify_all()

    def ask(self, asked: Any) -> None:
        """With both servers' word about every round before it."""
        for point in asked.points:
            self.points[point.digest] = point.data
        self.asked[asked.index] = asked.query_digest
        self.say(State(state=State.STATE_ROUND, round=asked, statements=self.stated(asked.index)))

    def ListRuns(self, request: Any, context: Any) -> Any:
        ends = time.monotonic() + min(request.wait_seconds, 30)
        while time.monotonic() < ends and context.is_active():
            fresh = [each for each in self.manifests if hashlib.sha256(each).digest() not in request.known_digests]
            if fresh:
                return coordinator_pb2.ListRunsResponse(manifests=fresh)
            time.sleep(0.02)
        return coordinator_pb2.ListRunsResponse()

    def Join(self, request: Any, context: Any) -> Any:
        self.joins.append(request)
        return coordinator_pb2.JoinResponse()

    def NextRound(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        ends = time.monotonic() + min(request.wait_seconds, 30)
        with self.changed:
            while time.monotonic() < ends and context.is_active():
                found = self.current if self.only in (None, request.manifest_digest) else None
                if found is not None and (
                    self.repeat or found.state != State.STATE_ROUND or found.round.index != request.after_round
                ):
                    break
                self.changed.wait(0.05)
            else:
                return State(state=State.STATE_WAIT)
        sent = State.FromString(found.SerializeToString())
        if sent.state == State.STATE_ROUND and request.after_round < 0:
            sent.admissions.extend(self.words(request.manifest_digest))
        for point in sent.round.points:
            if point.digest in request.held_points:
                point.data = b""
            elif len(point.data) > PIECE_BYTES:
                point.data = point.data[:PIECE_BYTES]
        return sent

    def FetchPoint(self, request: Any, context: Any) -> Any:
        if self.deaf:
            self.deaf -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        data = self.points[request.digest][request.offset : request.offset + PIECE_BYTES]
        return coordinator_pb2.FetchPointResponse(data=data)


@dataclass
class Aggregator(aggregator_pb2_grpc.ShareServiceServicer):
    """Takes uploads; `trouble` may answer a piece in its place."""

    role: int
    pieces: list[Any] = field(default_factory=list)
    payloads: dict[int, bytes] = field(default_factory=dict)
    whole: list[tuple[int, bytes]] = field(default_factory=list)
    """Every complete payload in order, repeated ones too."""
    trouble: Callable[[Any, Any], Any] | None = None
    parts: dict[int, bytes] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)
    identity: Identity | None = None
    other: "Aggregator | None" = None
    """Of A: B, whom it hands sealed halves at once."""
    refused: int = 0
    """Of B: sealed halves that did not open."""
    recalled: list[Any] = field(default_factory=list)
    """What it says that it has of the party."""
    evidence: list[bytes] = field(default_factory=list)
    looks: int = 0
    """How often it was asked for that."""

    def Evidence(self, request: Any, context: Any) -> Any:
        self.looks += 1
        fresh = [each for each in self.evidence if hashlib.sha256(each).digest() not in request.known]
        return aggregator_pb2.EvidenceResponse(evidence=fresh[:8])

    def Recall(self, request: Any, context: Any) -> Any:
        return aggregator_pb2.RecallResponse(runs=self.recalled)

    accounted: list[tuple[Manifest, int, bool]] = field(default_factory=list)
    """Runs of the party, as this server tells: in how many rounds it is, and whether the run has ended."""
    restored: list[tuple[int, int]] = field(default_factory=list)
    """When this server's backups were made, and put back."""
    silent: bool = False
    """Gives no account."""
    spoil: Callable[[Any], Any] = lambda account: account
    """What is signed in its place."""

    def Account(self, request: Any, context: Any) -> Any:
        if self.silent:
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        assert self.identity is not None
        return accounted(self.identity, PARTY, request, self.accounted, self.restored, self.spoil)

    uploads: dict[int, bytes] = field(default_factory=dict)
    """Digests of what is whole."""
    signed: Callable[[], Signed | None] = lambda: None
    receipts: bool = True
    asked: list[int] = field(default_factory=list)
    """From which rounds statements were asked for."""

    def Upload(self, request: Any, context: Any) -> Any:
        assert peer_of(context, self.identity) == PARTY
        self.pieces.append(request)
        if self.trouble is not None and (answer := self.trouble(request, context)) is not None:
            return answer
        have = self.parts.get(request.round, b"")
        if request.offset == 0 and len(request.data) == request.size:
            have = b""
        if request.offset == len(have):
            have += request.data
        self.parts[request.round] = have
        if len(have) < request.size:
            return Response(received=len(have))
        del self.parts[request.round]
        commit, said = (commitment_a, request.commitment_a) if self.role == 0 else (commitment_b, request.commitment_b)
        if commit(have) != said:
            return Response(rejection=Response.REJECTION_DIGEST)
        if self.take(request.round, have):
            return Response(rejection=Response.REJECTION_CONTRADICTION)
        words = (request.query_digest, request.commitment_a, request.commitment_b)
        upload = upload_digest(request.manifest_digest, request.round, PARTY.uri, *words)
        self.uploads[request.round] = upload
        answer, signed = Response(received=len(have), complete=True), self.signed()
        if self.receipts and signed is not None:
            answer.receipt.ParseFromString(signed.receipt(self.role, request.round, request.query_digest, upload))
        if request.relay_key:
            self.keys.hold(PARTY.name, request.round, request.relay_key)
        if request.relayed and self.other is not None:
            self.other.receive(request)
        return answer

    def Statements(self, request: Any, context: Any) -> Any:
        assert peer_of(context, self.identity) == PARTY
        self.asked.append(request.round)
        signed = self.signed()
        words = signed.of(self.role, request.round, request.most) if signed else []
        return aggregator_pb2.StatementsResponse(statements=words)

    def take(self, index: int, payload: bytes) -> bool:
        """Whether it contradicts what is here."""
        self.whole.append((index, payload))
        return self.payloads.setdefault(index, payload) != payload

    def receive(self, request: Any) -> None:
        """On B, from A."""
        words = (request.query_digest, request.commitment_a, request.commitment_b)
        digest = upload_digest(request.manifest_digest, request.round, PARTY.uri, *words)
        half = self.keys.open(PARTY.name, request.round, digest, request.relayed)
        if half is None or commitment_b(half) != request.commitment_b:
            self.refused += 1
        else:
            self.take(request.round, half)
            self.uploads[request.round] = digest


class Stage:
    """Servers, certificates and a party's folder."""

    def __init__(self, path: Path, units: int = 300) -> None:
        self.path = path
        self.authority = ThrowAwayAuthority("cardio")
        self.coordinator, self.b = Coordinator(), Aggregator(1)
        self.a = Aggregator(0, other=self.b)
        self.signed: Signed | None = None
        self.a.signed = self.b.signed = lambda: self.signed
        self.coordinator.stated = self.stated
        self.servers: dict[NodeName, grpc.Server] = {}
        self.coordinator.words = self.words
        self.identities = {name: self.authority.issue_as(name) for name in (LEAD, NORTH, SOUTH, PARTY)}
        self.a.identity, self.b.identity = self.identities[NORTH], self.identities[SOUTH]
        self.ports = {
            LEAD: self.serve(LEAD, coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server, self.coordinator),
            NORTH: self.serve(NORTH, aggregator_pb2_grpc.add_ShareServiceServicer_to_server, self.a),
            SOUTH: self.serve(SOUTH, aggregator_pb2_grpc.add_ShareServiceServicer_to_server, self.b),
        }
        self.node = path / "party"
        self.authority.install(self.node / "identity", PARTY)
        (self.node / "policy.toml").write_text(PARTY_POLICY)
        self.write_records(units)
        self.write_schema(SCHEMA.replace("300", str(units)))
        self.write_node()
        self.seal()

    def write_schema(self, text: str = SCHEMA) -> None:
        (self.node / "schema.toml").write_text(text)

    def seal(self) -> Fit:
        """As the party's operator does after every change."""
        return seal_node(self.node)

    def write_node(
        self, epsilon: float = 4.0, files: str = "records.csv", population: str = "patients", delta: float = 1e-4
    ) -> None:
        ports = {name.name: self.ports[name] for name in (NORTH, SOUTH)}
        write_party(self.node, ports, self.ports[LEAD], files, population, (epsilon, delta))

    def write_records(self, units: int) -> None:
        rng = np.random.default_rng(7)
        rows = [f"{age:.1f},{pulse:.0f},{sick}" for age, pulse, sick in zip(
            rng.uniform(20, 90, units), rng.uniform(30, 220, units), rng.integers(0, 2, units), strict=True
        )]  # fmt: skip
        (self.node / "records.csv").write_text("age,pulse,sick\n" + "\n".join(rows) + "\n")

    def serve(self, name: NodeName, add: Any, servicer: Any, port: int = 0) -> int:
        folder = self.path / f"{name.role}-{name.name}"
        if not folder.exists():
            self.authority.install(folder, name)
        server = grpc.server(futures.ThreadPoolExecutor(8))
        add(servicer, server)
        bound: int = server.add_secure_port(f"127.0.0.1:{port}", server_credentials(NodeFolder(folder)))
        server.start()
        self.servers[name] = server
        return bound

    @staticmethod
    def install(identity: Identity, folder: Path, label: str) -> None:
        identity.save(folder / "identities" / label)
        link = folder / "current.new"
        link.symlink_to(f"identities/{label}")
        link.replace(folder / "current")

    def offer(self, manifest: Manifest) -> None:
        self.coordinator.manifests.append(manifest.canonical)

    def stated(self, index: int) -> list[Any]:
        """Both servers' words about the round before; what is not stated yet is stated now, as it is."""
        if self.signed is None and self.coordinator.manifests:
            manifest = Manifest.from_canonical(self.coordinator.manifests[-1])
            self.signed = Signed(manifest, self.identities)
        signed = self.signed
        if signed is None or index == 0:
            return []
        for at in range(len(signed.words[0]), index):
            whole, all_needed = self.a.uploads.get(at), signed.manifest.minimum_parties == len(signed.manifest.parties)
            there = whole is not None and (all_needed or whole == self.b.uploads.get(at))
            mine = {PARTY.name: whole} if there and whole is not None else {}
            signed.state(self.coordinator.asked.get(at, bytes(32)), mine)
        return [*signed.of(0, index - 1), *signed.of(1, index - 1)]

    def ends(self, manifest: Manifest, openings: int, names: Sequence[NodeName] = (NORTH, SOUTH)) -> list[Any]:
        return [sign_end(self.identities[name], manifest.digest, openings) for name in names]

    def words(self, digest: bytes) -> list[Any]:
        """Both aggregators' words that they admitted it."""
        return [sign_admission(self.identities[name], digest) for name in (NORTH, SOUTH)]

    def finish(self, ends: list[Any]) -> None:
        self.coordinator.say(State(state=State.STATE_ENDED, ends=ends, outcome="finished"))

    def opened(self, index: int) -> NDArray[np.int64]:
        """What the two shares of a round add up to, once they are there."""
        until(lambda: index in self.a.payloads and index in self.b.payloads)
        share = np.frombuffer(self.a.payloads[index][BLIND_BYTES:], "<u8")
        return (share + expand(self.b.payloads[index], len(share))).view(np.int64)

    def close(self) -> None:
        for server in self.servers.values():
            server.stop(0)
