"""Two real aggregation servers, a process each, on loopback with throw-away certificates; and fake callers."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from parley.aggregator.opening_store import OpeningStore, Phase
from parley.demo.local import ReservedPort
from parley.federation.admission import BY_HAND, AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import commitment_a, commitment_b, half_a, upload_digest
from parley.mpc.crash import VARIABLE
from parley.mpc.ring import share
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.node.node_file import Address, AggregatorNode, NoiseSettings
from parley.node.node_text import write_node
from parley.node.refusals import refusal_in
from parley.node.relay import RoundKey, seal
from parley.node.transport import open_channel
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import aggregator_pb2_grpc
from tests.support import documents

NAMES = ("north", "south")
PARTIES = ("hospital-a", "hospital-b", "hospital-c")
WAIT = 120.0


@dataclass
class Server:
    """One process and its folder."""

    role: int
    path: Path
    process: subprocess.Popen[str] | None = None
    ports: dict[str, int] = field(default_factory=dict)

    def start(self, crash_at: str | None = None) -> None:
        """Until it says that it is ready."""
        environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
        environment |= {"OMP_NUM_THREADS": "1"} | ({VARIABLE: crash_at} if crash_at else {})
        log = (self.path / "log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "parley.aggregator", str(self.path)],
            stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.path / "log").read_text()[-2000:]
        self.ports = json.loads(line)["ports"]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)

    def died(self) -> None:
        """By its own hand, at a crash point."""
        assert self.process is not None
        assert self.process.wait(WAIT) == -signal.SIGKILL


class Federation:
    """Two servers, and whoever calls them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = ThrowAwayAuthority("cardio")
        self.servers = [self._server(role) for role in (0, 1)]
        self._peer: ReservedPort | None = None
        self._channels: dict[tuple[str, str, int], grpc.Channel] = {}
        self.identities = {name: self._issue(Role.party, name) for name in PARTIES}
        self.identities["lead"] = self._issue(Role.coordinator, "lead")
        self.identities["north"] = self._issue(Role.aggregator, "north")

    def _issue(self, role: Role, name: str) -> Identity:
        return self.authority.issue_as(NodeName("cardio", role, name))

    def _server(self, role: int) -> Server:
        path = self.folder / NAMES[role]
        (path / "state").mkdir(parents=True)
        self.authority.install(path / "identity", NodeName("cardio", Role.aggregator, NAMES[role]))
        (path / "policy.toml").write_text(documents.AGGREGATOR_POLICY)
        self.configure(role, path)
        return Server(role, path)

    def configure(self, role: int, path: Path, peer: int = 0) -> None:
        """A has to know the port that B was given; B listens on the same again."""
        at = Address("127.0.0.1", peer)
        write_node(
            AggregatorNode(
                folder=path,
                share=(Address("127.0.0.1", 0),),
                control=Address("127.0.0.1", 0),
                peer_name=NAMES[1 - role],
                peer_address=at if role == 0 else None,
                peer_listener=at if role == 1 else None,
                noise=NoiseSettings("strips", "standard", 32768, 2),
            )
        )

    def admit(self, manifest: Manifest) -> None:
        """As a person would; what policies and proposals do has tests of its own."""
        self.admit_silently(manifest)
        for server in self.servers:
            if server.ports:
                self.propose(server.role, manifest)

    def admit_silently(self, manifest: Manifest) -> None:
        """On disk only."""
        for server in self.servers:
            record = AdmissionRecord(server.path / "state" / "admissions.sqlite")
            record.put(manifest, BY_HAND, "a test")
            record.close()

    def propose(self, role: int, manifest: Manifest, who: str = "lead") -> Any:
        return self.control(role, who).Propose(wire.ProposeRequest(manifest=manifest.canonical), timeout=WAIT)

    def start(self, *crash_at: str | None) -> None:
        """B first, whom A dials: at a port that stays B's when it is started again."""
        points = crash_at or (None, None)
        self._peer = self._peer or ReservedPort()
        for role in (1, 0):
            self.configure(role, self.servers[role].path, self._peer.number)
            self.servers[role].start(points[role])

    def restart(self, role: int, crash_at: str | None = None) -> None:
        """With other ports, but for the peer's."""
        self.servers[role].start(crash_at)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.kill()
        if self._peer is not None:
            self._peer.close()

    def committed(self, role: int, manifest: Manifest, index: int) -> bool:
        """By its store, whatever its process does."""
        with closing(OpeningStore(self.servers[role].path / "state" / "openings.sqlite")) as store:
            found = store.find(manifest.run, index)
        return found is not None and found.phase is Phase.committed

    # ------------------------------------------------------------ callers

    def channel(self, who: str, role: int, port: str) -> grpc.Channel:
        number = self.servers[role].ports[port]
        key = (who, port, number)
        if key not in self._channels:
            server = NodeName("cardio", Role.aggregator, NAMES[role])
            self._channels[key] = open_channel(f"127.0.0.1:{number}", self.identities[who], server)
        return self._channels[key]

    def control(self, role: int, who: str = "lead", port: str = "control") -> Any:
        return aggregator_pb2_grpc.ControlServiceStub(self.channel(who, role, port))

    def share(self, role: int, who: str) -> Any:
        return aggregator_pb2_grpc.ShareServiceStub(self.channel(who, role, "share"))

    def upload(self, role: int, made: "Contribution", who: str | None = None, **changes: Any) -> Any:
        """One whole half, in one piece."""
        return self.share(role, who or made.party).Upload(made.request(role, **changes), timeout=WAIT)

    def upload_all(self, made: Sequence["Contribution"], roles: Sequence[int] = (0, 1)) -> None:
        for each in made:
            for role in roles:
                answer = self.upload(role, each)
                assert answer.complete, answer

    def open(
        self, manifest: Manifest, index: int, seconds: float = WAIT, roles: Sequence[int] = (0, 1), **changes: Any
    ) -> list[Any]:
        """What each server says: asked at the same time, again while it waits or is away; refusals as values."""
        request = open_request(manifest, index, **changes)

        def ask(role: int) -> Any:
            until = time.monotonic() + seconds
            while True:
                try:
                    answer = self.control(role).Open(request, timeout=WAIT + 10)
                    if answer.state != wire.OpenResponse.STATE_WAITING or time.monotonic() > until:
                        return answer
                except grpc.RpcError as error:
                    refusal = refusal_in(error)
                    if refusal is not None and refusal.name != "busy":
                        return refusal
                    if time.monotonic() > until:
                        return refusal or error
                    time.sleep(0.05)

        with futures.ThreadPoolExecutor(2) as both:
            return list(both.map(ask, roles))

    def end(self, manifest: Manifest, seconds: float = WAIT) -> list[Any]:
        def ask(role: int) -> Any:
            until = time.monotonic() + seconds
            while True:
                try:
                    return self.control(role).End(wire.EndRequest(manifest_digest=manifest.digest), timeout=WAIT).end
                except grpc.RpcError as error:
                    if time.monotonic() > until:
                        return refusal_in(error) or error
                    time.sleep(0.05)

        with futures.ThreadPoolExecutor(2) as both:
            return list(both.map(ask, (0, 1)))


def query_of(index: int) -> bytes:
    return hashlib.sha256(b"question %d" % index).digest()


def open_request(manifest: Manifest, index: int, **changes: Any) -> wire.OpenRequest:
    fields: dict[str, Any] = {
        "manifest_digest": manifest.digest,
        "round": index,
        "query_digest": query_of(index),
        "length": manifest.model.dimension,
        "expected": manifest.parties,
        "wait_seconds": 10.0,
    }
    return wire.OpenRequest(**{**fields, **changes})


@dataclass
class Contribution:
    """What one party sends in one round."""

    manifest: Manifest
    index: int
    party: str
    payloads: tuple[bytes, bytes]

    @classmethod
    def of(cls, manifest: Manifest, index: int, party: str, values: Any, salt: bytes = b"") -> "Contribution":
        """A fixed seed per party and round, as from an outbox."""
        seed = hashlib.sha256(party.encode() + salt + bytes([index])).digest()
        encoded = manifest.lattice(index).encode(np.asarray(values, np.float64))
        half = half_a(hashlib.sha256(seed).digest(), share(encoded, seed), manifest.share_bits)
        return cls(manifest, index, party, (half, seed))

    def sealed(self, key: bytes, given: int = 0) -> bytes:
        """Server B's half, to be sent to A; the key came with another round's half."""
        words = (query_of(self.index), commitment_a(self.payloads[0]), commitment_b(self.payloads[1]))
        uri = NodeName("cardio", Role.party, self.party).uri
        digest = upload_digest(self.manifest.digest, self.index, uri, *words)
        return seal(RoundKey(given, key).advance(self.index), digest, self.payloads[1], os.urandom(12))

    def request(self, role: int, **changes: Any) -> wire.UploadRequest:
        fields: dict[str, Any] = {
            "manifest_digest": self.manifest.digest,
            "round": self.index,
            "query_digest": query_of(self.index),
            "commitment_a": commitment_a(self.payloads[0]),
            "commitment_b": commitment_b(self.payloads[1]),
            "size": len(self.payloads[role]),
            "offset": 0,
            "data": self.payloads[role],
        }
        return wire.UploadRequest(**{**fields, **changes})


def contributions(manifest: Manifest, index: int, parties: Sequence[str] = PARTIES) -> list[Contribution]:
    """Party number i sends i + 1 in every coordinate."""
    every = list(manifest.parties)
    length = manifest.model.dimension
    return [Contribution.of(manifest, index, party, np.full(length, every.index(party) + 1.0)) for party in parties]


def value_of(manifest: Manifest, index: int, answers: Sequence[Any]) -> Any:
    """The noised sum."""
    lattice = manifest.lattice(index)
    shares = [np.frombuffer(answer.share, "<u8") for answer in answers]
    return lattice.decode(lattice.open(*shares))


def is_noised(manifest: Manifest, index: int, answers: Sequence[Any], total: float) -> bool:
    """Within the tails of the noise (16 deviations is the largest there is), and not without noise."""
    noise = value_of(manifest, index, answers) - total
    sigma = manifest.mechanism.noise_deviation(index)
    return bool((np.abs(noise) < 9 * sigma).all() and (np.abs(noise) > 0).any())


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    federation = Federation(tmp_path_factory.mktemp("servers"))
    federation.start()
    yield federation
    federation.close()
