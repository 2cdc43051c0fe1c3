"""A real coordinator in this process, over mutual TLS on loopback; its two aggregators answer as a test tells them."""

import asyncio
import hashlib
import threading
from collections.abc import Callable
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from parley.coordinator.operator_socket import SOCKET
from parley.coordinator.process import CoordinatorProcess
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_with_charge
from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity, NodeFolder
from parley.node.endings import sign_end
from parley.node.node_file import Address, CoordinatorNode
from parley.node.node_text import write_node
from parley.node.refusals import RefusedCallError, abort, refusal_in
from parley.node.transport import open_channel, server_credentials
from parley.privacy.filters import Charge, Policy
from parley.v1 import (
    aggregator_pb2,
    aggregator_pb2_grpc,
    common_pb2,
    coordinator_pb2,
    coordinator_pb2_grpc,
    operator_pb2_grpc,
)
from tests.support import documents

LEAD = NodeName("cardio", Role.coordinator, "lead")
SERVERS = [NodeName("cardio", Role.aggregator, name) for name in ("north", "south")]
PARTIES = ("hospital-a", "hospital-b", "hospital-c")
SECONDS = 120.0


_accounted: dict[tuple[str, str], tuple[Meaning, Charge]] = {}


def verified(manifest: Manifest, *_: object) -> tuple[Meaning, Charge]:
    """In place of the short-lived process: what a mechanism costs, computed once."""
    key = (manifest.mechanism.digest, repr(manifest.noise))
    if key not in _accounted:
        _accounted[key] = verify_with_charge(manifest, "", Policy())
    meaning, charge = _accounted[key]
    return replace(meaning, manifest=manifest), charge


class Scripted(aggregator_pb2_grpc.ControlServiceServicer):
    """One aggregator's control port: admits everything, opens zeros while `opening` is set."""

    def __init__(
        self, identity: Identity, place: int, opening: threading.Event, sets: dict[tuple[bytes, int], list[str]]
    ) -> None:
        self._identity, self._place, self._opening, self._sets = identity, place, opening, sets
        self.manifests: dict[bytes, Manifest] = {}
        self.opened: dict[bytes, int] = {}
        self.refuse_end = self.away = self.pending = False
        self.says_caught = ""
        """Why it opens nothing more with the other one."""
        self.evidence: list[bytes] = []
        self.change: Callable[[Any], Any] = lambda answer: answer
        """What a hostile server makes of an honest answer to Open."""

    def Propose(self, request: Any, context: Any) -> Any:
        manifest = Manifest.from_canonical(request.manifest)
        self.manifests[manifest.digest] = manifest
        if self.pending:
            return aggregator_pb2.ProposeResponse(pending=True, reasons=["a person has to decide"])
        return aggregator_pb2.ProposeResponse(admitted=True)

    def Evidence(self, request: Any, context: Any) -> Any:
        known = set(request.known)
        fresh = [each for each in self.evidence if hashlib.sha256(each).digest() not in known]
        return aggregator_pb2.EvidenceResponse(evidence=fresh)

    def Open(self, request: Any, context: Any) -> Any:
        if self.says_caught:
            abort(context, RefusedCallError(common_pb2.REFUSAL_CAUGHT, self.says_caught, "fetch the evidence"))
        if not self._opening.wait(request.wait_seconds):
            return aggregator_pb2.OpenResponse(
                state=aggregator_pb2.OpenResponse.STATE_WAITING, missing=request.expected
            )
        self.opened[request.manifest_digest] = request.round + 1
        # As real ones, both open one set: of whom the coordinator expects may differ between its calls to them.
        members = self._sets.setdefault((request.manifest_digest, request.round), sorted(request.expected))
        words = np.zeros(request.length, "<u8").tobytes()
        return self.change(
            aggregator_pb2.OpenResponse(
                state=aggregator_pb2.OpenResponse.STATE_OPENED,
                contributors=members,
                share=words,
                size=len(words),
                opening=bytes(16),
            )
        )

    def End(self, request: Any, context: Any) -> Any:
        if self.away:
            context.abort(grpc.StatusCode.UNAVAILABLE, "nobody is there")
        if self.refuse_end:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this server signs nothing")
        openings = self.opened.get(request.manifest_digest, 0)
        return aggregator_pb2.EndResponse(end=sign_end(self._identity, request.manifest_digest, openings))


class Lead:
    """The coordinator's process, and whoever calls it."""

    def __init__(self, folder: Path, gather_seconds: float = 3600.0, **settings: Any) -> None:
        """`settings` are further ones of its node.toml."""
        self.folder = folder / "lead"
        self.authority = ThrowAwayAuthority("cardio")
        self.opening = threading.Event()
        self._sets: dict[tuple[bytes, int], list[str]] = {}
        self._servers: list[grpc.Server] = []
        self.servers: list[Scripted] = []
        addresses = [self._serve(folder, place) for place in (0, 1)]
        self._install(self.folder / "identity", LEAD)
        (self.folder / "policy.toml").write_text(documents.COORDINATOR_POLICY)
        node = CoordinatorNode(
            folder=self.folder,
            listen=(Address("127.0.0.1", 0),),
            aggregators={name.name: Address.parse(at) for name, at in zip(SERVERS, addresses, strict=True)},
            epsilon=1000.0,
            delta=0.1,
            **settings,
        )
        write_node(node)
        self.socket = node.state / SOCKET
        self.notes: list[str] = []
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._node, self._gather_seconds = node, gather_seconds
        self._start()
        self._channels: dict[str, grpc.Channel] = {}
        self._local: Any = grpc.insecure_channel(f"unix:{self.socket}")
        self.operator: Any = operator_pb2_grpc.OperatorServiceStub(self._local)

    def _start(self) -> None:
        async def start() -> tuple[CoordinatorProcess, int]:
            process = CoordinatorProcess(self._node, self.note, self._gather_seconds)
            return process, (await process.serve())["parties"]

        self.process, self.port = self._await(start())

    def restart(self) -> None:
        """Another process on the same folder."""
        self._await(self.process.stop())
        self._start()

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def _install(self, folder: Path, name: NodeName) -> Identity:
        return self.authority.install(folder, name).load()

    def _serve(self, folder: Path, place: int) -> str:
        home = folder / SERVERS[place].name
        scripted = Scripted(self._install(home, SERVERS[place]), place, self.opening, self._sets)
        server = grpc.server(futures.ThreadPoolExecutor(16))
        aggregator_pb2_grpc.add_ControlServiceServicer_to_server(scripted, server)
        port = server.add_secure_port("127.0.0.1:0", server_credentials(NodeFolder(home)))
        server.start()
        self._servers.append(server)
        self.servers.append(scripted)
        return f"127.0.0.1:{port}"

    def note(self, event: str, **_: Any) -> str:
        self.notes.append(event)
        return ""

    def close(self) -> None:
        self.opening.set()
        for channel in [*self._channels.values(), self._local]:
            channel.close()
        self._await(self.process.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        for server in self._servers:
            server.stop(0)

    # ------------------------------------------------------------ callers

    def channel(self, who: str | NodeName | Identity) -> grpc.Channel:
        """Of a party's name, or of anybody."""
        key = who.fingerprint if isinstance(who, Identity) else str(who)
        if key not in self._channels:
            name = NodeName("cardio", Role.party, who) if isinstance(who, str) else who
            identity = name if isinstance(name, Identity) else self.authority.issue_as(name)
            self._channels[key] = open_channel(f"127.0.0.1:{self.port}", identity, LEAD)
        return self._channels[key]

    def stub(self, who: str | NodeName | Identity = "hospital-a") -> Any:
        return coordinator_pb2_grpc.CoordinatorServiceStub(self.channel(who))

    def submit(self, run: str, **changes: Any) -> Manifest:
        """A run that gathers its parties."""
        from parley.v1 import operator_pb2

        made = documents.manifest(run=run, **changes)
        self.operator.Submit(operator_pb2.SubmitRequest(manifest=made.canonical), timeout=SECONDS)
        self.until(made, State.gathering)
        return made

    def running(self, run: str, **changes: Any) -> Manifest:
        """A run whose first round waits for contributions."""
        made = self.submit(run, **changes)
        for party in made.parties:
            self.stub(party).Join(joining(made), timeout=SECONDS)
        self.until(made, State.running)
        return made

    def until(self, manifest: Manifest, state: State) -> None:
        """Wait for a run to come to a state."""

        async def wait() -> None:
            run = self.process.runs.all[manifest.digest]
            async with run.changed:
                while run.state is not state:
                    assert not run.state.resting, (run.state, run.outcome)
                    await asyncio.wait_for(run.changed.wait(), SECONDS)

        self._await(wait())

    def finishes(self, manifest: Manifest) -> None:
        """The honest run still comes to its end."""
        self.opening.set()
        try:
            self.until(manifest, State.finished)
        finally:
            self.opening.clear()


def joining(manifest: Manifest, accepted: bool = True, reason: str = "") -> Any:
    return coordinator_pb2.JoinRequest(manifest_digest=manifest.digest, accepted=accepted, reason=reason)


def asking(manifest: Manifest, after: int = -1, wait: float = 10.0, **changes: Any) -> Any:
    return coordinator_pb2.NextRoundRequest(
        manifest_digest=manifest.digest, after_round=after, wait_seconds=wait, **changes
    )


def refused(call: Callable[[], Any]) -> str:
    """The name of the typed refusal, or of the status code."""
    try:
        found = call()
    except grpc.RpcError as error:
        refusal = refusal_in(error)
        if refusal is not None:
            assert refusal.message
            assert refusal.hint
            return refusal.name
        assert isinstance(error, grpc.Call)
        return str(error.code().name).lower()
    raise AssertionError(f"answered: {found}")
