"""A party's folder and its real gate, and servers that tell what they have of it: for attacks on its memory."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from functools import cache
from pathlib import Path
from typing import Any, Self

import grpc

from parley.attacks import documents
from parley.attacks.documents import FEDERATION, PARTY, SERVERS, UNITS
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_with_charge
from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity, NodeFolder
from parley.node.endings import sign_admission
from parley.node.pins import Pins
from parley.node.transport import server_credentials
from parley.party.admission import Gate
from parley.party.data import Shelf
from parley.party.memory import Recollection
from parley.party.outbox import Answer
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node
from parley.party.wire import Wire
from parley.privacy.filters import Charge, Policy
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc, common_pb2


def made(run: str = "heart-1") -> Manifest:
    return documents.manifest(run=run, **{"privacy.epsilon": 1.0})


@cache
def _cost() -> tuple[Meaning, Charge]:
    return verify_with_charge(made(), PARTY.name, Policy())


class _Owed:
    """Words of both servers of the newest house, for a guard that is gone and has nobody to ask."""

    house: "House"

    @property
    def pins(self) -> Pins:
        return self.house.pins

    def __call__(self, manifest: Manifest) -> list[common_pb2.SignedAdmission]:
        return self.house.words(manifest)


owed = _Owed()


class House:
    """A party's folder, as its operator made it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._authority = folder / "party", ThrowAwayAuthority(FEDERATION)
        self.folder.mkdir(mode=0o700)
        self.identities = {name.name: self._authority.issue_as(name) for name in SERVERS}
        self.install(PARTY, self.folder / "identity")
        (self.folder / "policy.toml").write_text(documents.policy_text(epsilon_total=8.0))
        (self.folder / "schema.toml").write_text(documents.schema_text())
        self.configure({name.name: 1 for name in SERVERS})
        self.write()
        owed.house = self

    @property
    def pins(self) -> Pins:
        return self.identities["north"].pins

    def stranger(self, name: str) -> Identity:
        """The same name, by another authority."""
        return ThrowAwayAuthority(FEDERATION).issue_as(NodeName(FEDERATION, Role.aggregator, name))

    def install(self, name: NodeName, folder: Path) -> NodeFolder:
        return self._authority.install(folder, name)

    def configure(self, ports: Mapping[str, int]) -> None:
        documents.write_party(self.folder, ports, budget=(8.0, 1e-3))

    def write(self, start: int = 0) -> None:
        """Records of other people, for another start; sealed."""
        lines = [f"{20 + (start + n) * 0.1:.1f},{40 + n},{n % 2}" for n in range(UNITS)]
        (self.folder / "records.csv").write_text("\n".join(["age,pulse,sick", *lines]) + "\n")
        seal_node(self.folder)

    @property
    def ledger(self) -> Path:
        return self.folder / "state" / "ledger.sqlite"

    @contextlib.contextmanager
    def gate(self) -> Iterator[Gate]:
        """What decides in its process; its accounting is done here and once, for an attack has seconds."""
        settings = settings_of(party_node(self.folder))
        settings.state.mkdir(mode=0o700, exist_ok=True)
        with contextlib.closing(Gate(settings, PARTY, Shelf(settings))) as gate:

            def verified(manifest: Manifest) -> tuple[Meaning, Charge]:
                meaning, charge = _cost()
                return Meaning(**{**vars(meaning), "manifest": manifest}), charge

            setattr(gate, "_verified", verified)  # noqa: B010
            yield gate

    def words(self, manifest: Manifest) -> list[common_pb2.SignedAdmission]:
        return [sign_admission(self.identities[name.name], manifest.digest) for name in SERVERS]

    def answer(self, gate: Gate, manifest: Manifest, index: int) -> None:
        """To one round, as far as it lies on disk."""
        answer = Answer(round_index=index, query=b"q" * 32, upload=b"u" * 32, payload_a=bytes(120), payload_b=bytes(32))
        gate.outbox.put(manifest.digest, answer, None)
        gate.ledger.record(manifest.run, index, answer.upload.hex())
        gate.trail.append("round.answered", run=manifest.run, round=index, upload=answer.upload.hex(), bytes=152)

    @staticmethod
    def spent(gate: Gate) -> float:
        gate.ledger.verify()
        return sum(each.spent.epsilon for each in gate.ledger.populations.values())


class Servers(aggregator_pb2_grpc.ShareServiceServicer):
    """Both aggregators' share ports over TLS; each tells what a test lets it have of the party."""

    def __init__(self, house: House, told: Mapping[str, Sequence[tuple[Manifest, int]]]) -> None:
        self._running: list[grpc.Server] = []
        ports = {}
        for name in SERVERS:
            folder = house.install(name, house.folder.parent / name.name)
            server = grpc.server(futures.ThreadPoolExecutor(2))
            aggregator_pb2_grpc.add_ShareServiceServicer_to_server(_Telling(told.get(name.name, ())), server)
            ports[name.name] = server.add_secure_port("127.0.0.1:0", server_credentials(folder))
            server.start()
            self._running.append(server)
        house.configure(ports)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._running:
            server.stop(0)

    def recollect(self, gate: Gate, manifest: Manifest) -> None:
        """What a party does before the first answer of a run."""
        settings = gate.settings
        targets = {NodeName(FEDERATION, Role.aggregator, name): at for name, at in settings.aggregators.items()}
        with contextlib.closing(Wire(settings.identity, targets)) as wire:
            Recollection().require(manifest, gate.outbox, gate.ledger, wire, threading.Event())


class _Telling(aggregator_pb2_grpc.ShareServiceServicer):
    def __init__(self, told: Sequence[tuple[Manifest, int]]) -> None:
        self._told = told

    def Recall(self, request: Any, context: Any) -> aggregator_pb2.RecallResponse:
        return aggregator_pb2.RecallResponse(
            runs=[
                aggregator_pb2.RecalledRun(manifest_digest=manifest.digest, run=manifest.run, last_round=last)
                for manifest, last in self._told
            ]
        )
