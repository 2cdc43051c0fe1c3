"""The process of an aggregation server: its ports, who may call what there, signals. `parley aggregator run NODE`."""

import asyncio
import json
import signal
from collections.abc import Sequence
from concurrent import futures
from importlib.metadata import version
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2_grpc

from parley.aggregator.admission import Admissions
from parley.aggregator.grpc_link import NoiseServicer
from parley.aggregator.peer import OpeningServicer
from parley.aggregator.server import Server
from parley.aggregator.service import Service
from parley.aggregator.servicers import ControlServicer, ShareServicer
from parley.federation.names import NodeName, Role
from parley.mpc.kernels import best_variant
from parley.node import bell, meters, trust
from parley.node.alone import alone
from parley.node.authorization import AioAuthorization, Authorization, Authorizer, Pinned
from parley.node.collector import settle
from parley.node.connections import bound, listening
from parley.node.doorkeeper import Doorkeeper, room_for
from parley.node.errors import NodeError
from parley.node.node_file import Address, AggregatorNode, read_node
from parley.node.system import require_linux
from parley.node.transport import server_credentials
from parley.node.vigil import AioHealth, Health, Vigil
from parley.v1 import aggregator_pb2_grpc, noise_pb2_grpc

MOST_SHARE_CALLS = 1024
MOST_CONTROL_CALLS = 256
MOST_PEER_CALLS = 96
"""Openings, and a stream for each of two pools' workers; each takes a thread."""
MOST_CONTROL_CONNECTIONS = 96
MOST_PEER_CONNECTIONS = 48
YOUNG_SHARE, YOUNG_CONTROL, YOUNG_PEER = 100, 24, 12
"""Of one address, before they have shown a certificate."""
STOP_SECONDS = 2.0
SERVICE = "parley.v1."
HEALTH = "/grpc.health.v1.Health/Check"
"""And no watches, which have no end: each keeps one of a port's calls, and on the peer's port a thread."""
SHARE_METHODS = ("Upload", "Recall", "Statements", "Evidence")
"""What members of admitted runs may call on the share port."""


def aggregator_node(folder: Path) -> AggregatorNode:
    node = read_node(folder)
    if not isinstance(node, AggregatorNode):
        raise NodeError(f"{folder} is the folder of {node.role.with_article}: give an aggregator's")
    return node


class AggregatorProcess:
    """One server, listening."""

    def __init__(self, path: Path) -> None:
        self.node = aggregator_node(path)
        require_linux()
        best_variant()  # without its kernels it could join a run, and make no noise for it
        trust.require(self.node)
        self.server = Server(self.node)
        self.service = Service(self.server, version("parley-federation"))
        peer, dialled = self.server.peer, self.node.peer_address
        self.vigil = Vigil(
            self.node.identity,
            self.server.name,
            self.node.state,
            (lambda: {peer: str(dialled)}) if dialled else dict,
            dict if dialled else (lambda: {peer: 0.0}),
        )

    def _authorizer(self) -> Authorizer:
        """By port and method; each handler looks at its own run once more."""
        admissions, peer = self.server.admissions, self.server.peer
        led, members = admissions.coordinators, admissions.parties
        control = f"/{SERVICE}ControlService/"
        peer_only = {peer} if self.node.index == 1 else set()
        return Authorizer(
            {
                **{f"/{SERVICE}ShareService/{method}": lambda: members for method in SHARE_METHODS},
                # Before it is in any run that this server still reads: all that has to be pinned is its key.
                f"/{SERVICE}ShareService/Account": Pinned(self.server.name.federation, Role.party),
                f"{control}Account": Pinned(self.server.name.federation, Role.coordinator),
                # A run that was proposed and never admitted is ended, too.
                **{f"{control}{method}": admissions.proposers for method in ("Propose", "End")},
                **{f"{control}{method}": lambda: led for method in ("Open", "FetchShare")},
                **{f"{control}{method}": admissions.proposers for method in ("Status", "Evidence")},
                **{f"/{SERVICE}NoiseService/{method}": peer_only for method in ("Converse", "ConverseCovert")},
                f"/{SERVICE}OpeningService/Converse": peer_only,
                HEALTH: _Known(admissions, {self.server.name, peer}),
            },
            self.node.identity,
        )

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
            bound(server, str(address), server_credentials(self.node.identity, lambda name: name.role is callers))
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
            doors = self.server.doors
            sessions = NoiseServicer(doors.plain.put, {self.server.peer.uri}, doors.covert)
            noise_pb2_grpc.add_NoiseServiceServicer_to_server(sessions, server)
        opening = OpeningServicer(asyncio.get_running_loop(), self.service.serve_peer)
        aggregator_pb2_grpc.add_OpeningServiceServicer_to_server(opening, server)
        health_pb2_grpc.add_HealthServicer_to_server(Health(self.vigil), server)
        return server, bound(server, address, server_credentials(self.node.identity, self.server.peer.__eq__))

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
        # What is left of evidence is held against the runs that were open; and before anybody asks for a sum.
        self.server.follow()
        await asyncio.to_thread(self.server.docket.catch_up)
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
        await asyncio.to_thread(self.server.opener.own.prepare)
        self.service.start(self.server.admissions.admitted)
        if self.node.noise.capacity:
            self.server.noise.start()
        self.vigil.start()
        settle()
        ready = {"ready": True, "role": "aggregator", "name": self.server.name.name, "ports": ports}
        meters.pool(meters.start(self.node, self.server.name), self.service.status)
        self.server.note("process.ready", ports=list(ports.values()))
        print(json.dumps(ready), flush=True)
        await stopping.wait()
        self.server.note("process.stopping")
        self.service.close()
        self.server.doors.close()
        await asyncio.to_thread(self.vigil.stop)
        await asyncio.gather(share.stop(STOP_SECONDS / 2), control.stop(STOP_SECONDS / 2))
        if peer is not None:
            peer.stop(0)
        doorkeeper.stop()
        await asyncio.to_thread(self.server.noise.stop)
        self.server.close()


class _Known:
    """Who may ask after this server's health; the policy's file is read for those only whom nothing else names."""

    def __init__(self, admissions: Admissions, everyone: set[NodeName]) -> None:
        self._admissions, self._everyone = admissions, everyone

    def __contains__(self, name: object) -> bool:
        known = self._admissions
        return name in self._everyone or name in known.parties or name in known.proposers()


def run(path: Path) -> None:
    """Serve as the node in this folder."""

    async def serve() -> None:
        await AggregatorProcess(path).run()

    node = aggregator_node(path)
    with alone(node.state, node.role):  # before anything there is opened
        bell.install(node, node.identity.load().name)
        asyncio.run(serve())
        bell.remove()
