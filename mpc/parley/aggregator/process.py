"""The process of an aggregation server: its folder, listeners, noise pool and signals. `parley aggregator run NODE`."""

import asyncio
import functools
import json
import queue
import signal
from collections.abc import Sequence
from concurrent import futures
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc

from parley.aggregator.admission import Admissions
from parley.aggregator.grpc_link import GrpcLink, NoiseServicer, dial
from parley.aggregator.opening import Aggregator
from parley.aggregator.opening_store import OpeningStore, RefusedError
from parley.aggregator.peer import Dialler, OpeningServicer
from parley.aggregator.pool import NoisePool
from parley.aggregator.servicers import ControlServicer, Service, ShareServicer
from parley.aggregator.state import Tools
from parley.aggregator.terms import CallRefusedError, Proposal, RunTerms
from parley.aggregator.uploads import Memory
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import FederationError
from parley.federation.names import NodeName, Role
from parley.mpc.channel import Link
from parley.mpc.errors import PeerCheatedError, PeerClosedError
from parley.mpc.history import Draft
from parley.mpc.randomness import random_bytes
from parley.mpc.tables import load
from parley.node import logs, mentions
from parley.node import meters as metering
from parley.node import trust as pinning
from parley.node.authorization import AioAuthorization, Authorization, Authorizer, peer_of
from parley.node.collector import settle
from parley.node.connections import KEEPALIVE, listening
from parley.node.doorkeeper import Doorkeeper, room_for
from parley.node.endings import sign_admission, sign_end
from parley.node.errors import NodeError, NodeFileError
from parley.node.node_file import Address, AggregatorNode, read_node
from parley.node.notes import notes
from parley.node.refusals import RefusedCallError, abort
from parley.node.statements import LIFE_BYTES, sign_receipt, sign_statement
from parley.node.transport import InUse, RenewedChannel, server_credentials
from parley.node.vigil import AioHealth, Health, Vigil
from parley.v1 import aggregator_pb2_grpc, common_pb2, noise_pb2_grpc

log = logs.logger()
OPENINGS_FILE = "openings.sqlite"
MOST_UPLOAD_BYTES = 1 << 30
MOST_SHARE_CALLS = 1024
MOST_CONTROL_CALLS = 256
MOST_PEER_CALLS = 64
MOST_CONTROL_CONNECTIONS = 96
MOST_PEER_CONNECTIONS = 48
YOUNG_SHARE, YOUNG_CONTROL, YOUNG_PEER = 100, 24, 12
"""Of one address, before they have shown a certificate."""
STOP_SECONDS = 2.0
SERVICE = "parley.v1."
HEALTH = "/grpc.health.v1.Health/Check"
"""And no watches, which have no end: each keeps one of a port's calls, and on the peer's port a thread."""


def aggregator_node(folder: Path) -> AggregatorNode:
    node = read_node(folder)
    if not isinstance(node, AggregatorNode):
        raise NodeError(f"{folder} is the folder of a {node.role}: give an aggregator's")
    return node


class PeerChannel(RenewedChannel):
    """Server A's connection to B, for conversations."""

    def __call__(self) -> grpc.Channel:
        try:
            return super().__call__()
        except FederationError as error:
            raise PeerClosedError(f"the other server is not dialled: {error}") from None


SHARE_METHODS = ("Upload", "Recall", "Statements")
"""What members of admitted runs may call on the share port."""


class AggregatorProcess:
    """Everything of one process; implements `parley.aggregator.terms.Surroundings`."""

    def __init__(self, path: Path) -> None:
        self.node = aggregator_node(path)
        pinning.require(self.node)
        self.folder = self.node.identity
        self._in_use = InUse(self.folder)
        self.name = self._in_use().name
        if self.name.role is not Role.aggregator:
            raise NodeError(f"identity is {self.name}'s: install an aggregator's certificate in {self.folder.path}")
        self.note = notes(self.node)
        self.peer = NodeName(self.name.federation, Role.aggregator, self.node.peer_name)
        if self.peer == self.name:
            raise NodeFileError("peer.name", "is this server itself: name the other one")
        self._record = AdmissionRecord(self.node.admissions)
        openings = self.node.state / OPENINGS_FILE
        openings.touch(mode=0o600)
        self._store = OpeningStore(openings)
        noise, role = self.node.noise, self.node.index
        self.admissions = Admissions(
            self._record, self._in_use, self.peer, role, noise, self.node.policy, self.node.verified, self.note
        )
        self._accepted: queue.SimpleQueue[GrpcLink | None] = queue.SimpleQueue()
        dialled = self.node.peer_address
        self._dialled = PeerChannel(str(dialled), self.folder, self.peer, KEEPALIVE) if dialled else None
        self.vigil = Vigil(
            self.folder,
            self.name,
            self.node.state,
            (lambda: {self.peer: str(dialled)}) if dialled else dict,
            dict if dialled else (lambda: {self.peer: 0.0}),
        )
        self.pool = NoisePool(
            self._link, role, load(noise.cover, noise.precision), noise.capacity, cheated=self._cheated
        )
        self._life = random_bytes(LIFE_BYTES)
        executor = futures.ThreadPoolExecutor(32, "opening")
        self.aggregator = Aggregator(role, self.pool, self._store, 10.0)
        tools = Tools(
            self._store,
            self.aggregator,
            Memory(MOST_UPLOAD_BYTES),
            executor,
            Dialler(self._dialled) if self._dialled else None,
            lambda digest: self.admissions.terms(digest) is not None,
            self.note,
            self,
        )
        self._executor = executor
        self.service = Service(self, tools, self.pool, version("parley-federation"))

    # ------------------------------------------------------------ what parley.aggregator asks for

    def caller(self, context: Any) -> str:
        return peer_of(context).uri

    def heard(self, caller: str, context: Any) -> str | None:
        return mentions.by(_named(caller), context.invocation_metadata())

    def mention(self, context: Any, event: str) -> None:
        context.set_trailing_metadata(mentions.of(event))

    async def abort(self, context: Any, error: CallRefusedError) -> None:
        await abort(context, RefusedCallError(error.refusal, error.message, error.hint))

    def terms(self, manifest_digest: bytes, ending: bool = False) -> RunTerms | None:
        return self.admissions.terms(manifest_digest, ending)

    def sign_end(self, manifest_digest: bytes, openings: int) -> common_pb2.SignedEnd:
        return sign_end(self._in_use(), manifest_digest, openings)

    def sign_admission(self, manifest_digest: bytes) -> common_pb2.SignedAdmission:
        return sign_admission(self._in_use(), manifest_digest)

    async def never_admit(self, manifest: bytes, manifest_digest: bytes, caller: str) -> None:
        await self.admissions.never_admit(manifest, manifest_digest, caller, self._store.knows)

    def taking_part(self, caller: str) -> list[RunTerms]:
        return self.admissions.taking_part(caller)

    def statement(self, terms: RunTerms, draft: Draft) -> bytes:
        try:
            return sign_statement(self._in_use(), terms.digest, terms.role, terms.mode, self._life, draft)
        except FederationError as error:
            raise RefusedError(str(error)) from None

    def receipt(self, terms: RunTerms, index: int, query: bytes, upload: bytes) -> bytes:
        return sign_receipt(self._in_use(), terms.digest, terms.role, self._life, index, query, upload)

    def _cheated(self, error: PeerCheatedError) -> None:
        """A noise session that honest servers would not have come to; in the trail by the error's name."""
        self.note("noise.refused", error=error, peer=self.peer, kind=type(error).__name__)

    async def propose(self, manifest: bytes, caller: str) -> Proposal:
        return await self.admissions.propose(manifest, caller)

    # ------------------------------------------------------------ listeners

    def _authorizer(self) -> Authorizer:
        """By port and method; each handler looks at its own run once more."""
        led, members = self.admissions.coordinators, self.admissions.parties
        control = f"/{SERVICE}ControlService/"
        peer_only = {self.peer} if self.node.index == 1 else set()
        return Authorizer(
            {
                **{f"/{SERVICE}ShareService/{method}": lambda: members for method in SHARE_METHODS},
                # A run that was proposed and never admitted is ended, too.
                **{f"{control}{method}": self.admissions.proposers for method in ("Propose", "End")},
                **{f"{control}{method}": lambda: led for method in ("Open", "FetchShare")},
                f"{control}Status": self.admissions.proposers,
                f"/{SERVICE}NoiseService/Converse": peer_only,
                f"/{SERVICE}OpeningService/Converse": peer_only,
                HEALTH: _Known(self.admissions, {self.name, self.peer}),
            },
            self.folder,
        )

    def _link(self) -> Link:
        if self._dialled is not None:
            return dial(self._dialled())
        link = self._accepted.get()
        if link is None:
            raise PeerClosedError("this server is stopping")
        return link

    def _aio_server(
        self, addresses: Sequence[Address], most_calls: int, most_connections: int, callers: Role
    ) -> tuple[grpc.aio.Server, int]:
        """A port of one role's, to which no other's key opens a connection: a party cannot keep coordinators out."""
        server = grpc.aio.server(
            interceptors=[AioAuthorization(self._authorizer())],
            options=listening(most_connections // len(addresses)),  # each address is a listener of its own
            maximum_concurrent_rpcs=most_calls,
        )
        health_pb2_grpc.add_HealthServicer_to_server(AioHealth(self.vigil), server)
        ports = [
            _bound(server, str(address), server_credentials(self.folder, lambda name: name.role is callers))
            for address in addresses
        ]
        return server, ports[0]

    def _peer_server(self, address: str) -> tuple[grpc.Server, int]:
        server = grpc.server(
            futures.ThreadPoolExecutor(MOST_PEER_CALLS, "peer"),
            interceptors=[Authorization(self._authorizer())],
            options=listening(MOST_PEER_CONNECTIONS),
            maximum_concurrent_rpcs=MOST_PEER_CALLS,
        )
        if self.node.noise.capacity:
            sessions = NoiseServicer(self._accepted.put, {self.peer.uri})
            noise_pb2_grpc.add_NoiseServiceServicer_to_server(sessions, server)
        opening = OpeningServicer(asyncio.get_running_loop(), self.service.serve_peer)
        aggregator_pb2_grpc.add_OpeningServiceServicer_to_server(opening, server)
        health_pb2_grpc.add_HealthServicer_to_server(Health(self.vigil), server)
        return server, _bound(server, address, server_credentials(self.folder, self.peer.__eq__))

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        room_for(self.node.connections + MOST_CONTROL_CONNECTIONS + MOST_PEER_CONNECTIONS)
        share, share_port = self._aio_server(self.node.share, MOST_SHARE_CALLS, self.node.connections, Role.party)
        aggregator_pb2_grpc.add_ShareServiceServicer_to_server(ShareServicer(self.service), share)
        control, control_port = self._aio_server(
            (self.node.control,), MOST_CONTROL_CALLS, MOST_CONTROL_CONNECTIONS, Role.coordinator
        )
        aggregator_pb2_grpc.add_ControlServiceServicer_to_server(ControlServicer(self.service), control)
        ports = {"share": share_port, "control": control_port}
        peer = None
        if self.node.peer_listener is not None:
            peer, ports["peer"] = self._peer_server(str(self.node.peer_listener))
            peer.start()
        await share.start()
        await control.start()
        doorkeeper = Doorkeeper(
            {
                **{address.port: min(YOUNG_SHARE, self.node.connections // 4) for address in self.node.share},
                share_port: min(YOUNG_SHARE, self.node.connections // 4),
                control_port: YOUNG_CONTROL,
                **({ports["peer"]: YOUNG_PEER} if peer is not None else {}),
            }
        )
        doorkeeper.start()
        await asyncio.to_thread(self.aggregator.own.prepare)
        if self.node.noise.capacity:
            self.pool.start()
        self.vigil.start()
        self.service.start([terms.digest for terms in self.admissions.admitted])
        settle()
        ready = {"ready": True, "role": "aggregator", "name": self.name.name, "ports": ports}
        metering.pool(metering.start(self.node, self.name), self.service.status)
        self.note("process.ready", ports=list(ports.values()))
        print(json.dumps(ready), flush=True)
        await stopping.wait()
        self.note("process.stopping")
        self.service.close()
        self._accepted.put(None)
        await asyncio.to_thread(self.vigil.stop)
        await asyncio.gather(share.stop(STOP_SECONDS / 2), control.stop(STOP_SECONDS / 2))
        if peer is not None:
            peer.stop(0)
        doorkeeper.stop()
        await asyncio.to_thread(self.pool.stop)
        if self._dialled is not None:
            self._dialled.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._store.close()
        self._record.close()


class _Known:
    """Who may ask after this server's health; the policy's file is read for those only whom nothing else names."""

    def __init__(self, admissions: Admissions, everyone: set[NodeName]) -> None:
        self._admissions, self._everyone = admissions, everyone

    def __contains__(self, name: object) -> bool:
        known = self._admissions
        return name in self._everyone or name in known.parties or name in known.proposers()


@functools.lru_cache(maxsize=4096)
def _named(uri: str) -> NodeName:
    return NodeName.parse(uri)


def _bound(server: Any, address: str, credentials: grpc.ServerCredentials) -> int:
    try:
        port = int(server.add_secure_port(address, credentials))
    except RuntimeError:
        port = 0
    if not port:
        raise NodeError(f"cannot listen on {address}: choose another address in node.toml, or stop what uses it")
    return port


def run(path: Path) -> None:
    """Serve as the node in this folder."""

    async def serve() -> None:
        await AggregatorProcess(path).run()

    asyncio.run(serve())
