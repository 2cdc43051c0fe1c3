"""One of two servers that sample under audit, as a process of its own: the product's code, unless a task says that it
lies.

    python -P -m parley.attacks.covert_server     # started by parley.attacks.covert_trial, twice

First line in: the settings. Server B answers with its port, server A is then told it. Every further line is a task, a
session; the answer is one JSON line. Links, TLS, pins and signatures are those of an aggregation server.
"""

import hashlib
import json
import queue
import sys
import threading
import time
from concurrent import futures
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from parley.aggregator.grpc_link import NoiseServicer, dial
from parley.attacks.covert_liar import LyingChannel, LyingLink, LyingSession
from parley.attacks.covert_lies import made
from parley.federation.names import NodeName, Role
from parley.mpc.channel import Channel, Link
from parley.mpc.covert import COVERT_LABEL, CovertSession, Signing
from parley.mpc.errors import MpcError, PeerClosedError, PeerError
from parley.mpc.evidence import Evidence
from parley.mpc.kernels import Kernels, Variant, Words
from parley.mpc.tables import load
from parley.node import signatures
from parley.node.connections import KEEPALIVE, listening
from parley.node.credentials import Identity, NodeFolder
from parley.node.transport import open_channel, server_credentials
from parley.v1 import noise_pb2_grpc

FEDERATION = "trial"
SERVERS = tuple(NodeName(FEDERATION, Role.aggregator, name) for name in ("north", "south"))
CONTEXT = hashlib.sha256("\n".join(["covert", FEDERATION, *(name.uri for name in SERVERS)]).encode()).digest()
CONNECT_SECONDS = DEADLINE = 600.0
"""That nobody comes to: who meets an error hangs up."""
SIGNED = "signed-{}"
"""A file that is there once the other server has signed a batch of the present session."""


@dataclass(frozen=True)
class Settings:
    """What a server needs to know to take part."""

    role: int
    folder: str
    """Holds both identities; evidence and shares go there."""
    variant: Variant | None = None
    """Of the kernels; None: the fastest."""


@dataclass(frozen=True)
class Task:
    """One session, for both servers."""

    batches: int
    lanes: int
    audits: int
    """1 in so many batches."""
    lie: str = ""
    liar: int = 1
    deadline: float = DEADLINE
    reconnect: bool = False
    """Over a new connection."""
    save: bool = False
    """Both servers' shares."""
    opening: bool = False
    """Not a session alone: a pool that it fills, and a sum that is opened with its noise."""


def signing_of(identity: Identity, peer: NodeName) -> Signing:
    return Signing(
        identity.pin,
        lambda statement: signatures.sign(identity, COVERT_LABEL, statement),
        lambda: identity.pins.of(peer),
        verified,
        CONTEXT,
    )


def verified(key: bytes, statement: bytes, signature: bytes) -> bool:
    return signatures.signed_by(key, COVERT_LABEL, statement, signature)


class Server:
    """Carries out tasks."""

    def __init__(self, settings: Settings) -> None:
        self.role, self.folder = settings.role, Path(settings.folder)
        place = NodeFolder(self.folder / SERVERS[self.role].name)
        self._identity, self._peer = place.load(), SERVERS[1 - self.role]
        self._native = Kernels(settings.variant) if settings.variant else None
        self.tables = load("strips", "standard")
        self._saved = 0
        self._port = 0
        self._connection: grpc.Channel | None = None
        self._accepted: queue.SimpleQueue[Link] = queue.SimpleQueue()
        if self.role == 1:
            self._server = grpc.server(futures.ThreadPoolExecutor(8), options=listening(16))
            servicer = NoiseServicer(self._accepted.put, {self._peer.uri})
            noise_pb2_grpc.add_NoiseServiceServicer_to_server(servicer, self._server)
            credentials = server_credentials(place, self._peer.__eq__)
            self._port = self._server.add_secure_port("127.0.0.1:0", credentials)
            self._server.start()

    @property
    def port(self) -> int:
        return self._port

    def dial(self, port: int) -> None:
        """Server A: where the other one listens."""
        self._port = port

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self.role == 1:
            self._server.stop(0).wait()

    def link(self, reconnect: bool) -> Link:
        if self.role == 1:
            try:
                return self._accepted.get(timeout=CONNECT_SECONDS)
            except queue.Empty:
                raise PeerClosedError("nobody dials") from None
        if self._connection is not None and reconnect:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = open_channel(f"127.0.0.1:{self._port}", self._identity, self._peer, KEEPALIVE)
        return dial(self._connection)

    @property
    def signing(self) -> Signing:
        return signing_of(self._identity, self._peer)

    def done(self, task: Task) -> dict[str, Any]:
        """The task, and what this server has of it."""
        if task.opening:
            from parley.attacks.covert_pool import opened  # which is made of this

            return opened(self, task)
        return self.session(task)

    def session(self, task: Task) -> dict[str, Any]:
        """Until it has made so many batches, or ended."""
        found = Found(self.folder, self.role)
        processor = time.process_time()
        link = self.link(task.reconnect)
        try:
            session = self._open(link, task, found)
            try:
                for _ in range(task.batches):
                    found.kept.append(session.samples(task.lanes))
            finally:
                found.session = session
                session.close()
        except PeerError as error:
            found.error = error
        finally:
            link.close()
            for thread in threading.enumerate():
                if thread.name == "noise-audit":
                    thread.join()  # who is caught twice is counted twice, though the first time has ended the session
        if task.save:
            found.save(self._saved)
            self._saved += 1
        return {**found.told(), "processor": time.process_time() - processor}

    def _open(self, link: Link, task: Task, found: "Found") -> CovertSession:
        rate, signing = Fraction(1, task.audits), found.counted(self.signing)
        if not task.lie or task.liar != self.role:
            channel = Channel(link, task.deadline)
            return CovertSession(channel, self.role, self.tables, signing, rate, found.keep, native=self._native)
        lie = made(task.lie)
        line = LyingLink(link, lie, lambda: time.monotonic() + task.deadline)
        return LyingSession(
            lie, LyingChannel(line, lie, task.deadline), self.role, self.tables, signing, rate, found.keep,
            self._native,
        )  # fmt: skip


class Found:
    """What one server has of a session."""

    def __init__(self, folder: Path, role: int) -> None:
        self._folder, self._role = folder, role
        self.session: CovertSession | None = None
        self.kept: list[Words] = []
        self.error: MpcError | None = None
        self.evidence: list[str] = []
        self._signed: set[bytes] = set()

    def counted(self, signing: Signing) -> Signing:
        """The same; the batches that the other server has signed are counted."""

        def verify(key: bytes, statement: bytes, signature: bytes) -> bool:
            right = signing.verify(key, statement, signature)
            if right:
                (self._folder / SIGNED.format(self._role)).touch()
                self._signed.add(hashlib.sha256(statement).digest())
            return right

        return Signing(signing.key, signing.sign, signing.peer_keys, verify, signing.context)

    def keep(self, evidence: Evidence) -> None:
        data = evidence.encoded()
        name = f"{hashlib.sha256(data).hexdigest()}.evidence"
        place = self._folder / f"evidence-{self._role}"
        place.mkdir(exist_ok=True)
        (place / name).write_bytes(data)
        self.evidence.append(name)

    def save(self, number: int) -> None:
        shares = np.concatenate([np.empty(0, np.uint64), *self.kept])
        np.save(self._folder / f"shares-{self._role}-{number}.npy", shares)

    def told(self) -> dict[str, Any]:
        session = self.session
        return {
            "signed": len(self._signed),
            "kept": [len(batch) for batch in self.kept],
            "made": session.audits_made if session is not None else 0,
            "passed": session.audits_passed if session is not None else 0,
            "completed": session.completed if isinstance(session, LyingSession) else 0,
            "evidence": self.evidence,
            "error": type(self.error).__name__ if self.error is not None else "",
            "words": str(self.error or ""),
        }


def main() -> None:
    settings = Settings(**json.loads(sys.stdin.readline()))
    server = Server(settings)
    if settings.role == 1:
        print(json.dumps({"port": server.port}), flush=True)
    else:
        server.dial(json.loads(sys.stdin.readline())["port"])
    for line in sys.stdin:
        print(json.dumps(server.done(Task(**json.loads(line)))), flush=True)
    server.close()


def settings_line(settings: Settings) -> str:
    return json.dumps(asdict(settings))


def task_line(task: Task) -> str:
    return json.dumps(asdict(task))


if __name__ == "__main__":
    main()
