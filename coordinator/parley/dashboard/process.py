"""The dashboard's own process: what it reads in a coordinator's folder, and where it listens."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from parley.coordinator.controls import Control
from parley.coordinator.errors import CoordinatorError
from parley.coordinator.operator_client import Coordinator, coordinator_node
from parley.coordinator.result import models_of
from parley.dashboard.server import Place, serve
from parley.federation.names import NodeName
from parley.node.errors import NodeError
from parley.node.node_file import Address, CoordinatorNode, DashboardSettings
from parley.v1 import aggregator_pb2
from parley.web.listener import Settings

DEFAULT = DashboardSettings(Address("127.0.0.1", 7480))
STATUS_SECONDS = 1.0


def settings_of(node: CoordinatorNode, listen: Address | None = None) -> Settings:
    """Of node.toml, or on another address. Elsewhere than on loopback the node's own certificate serves."""
    chosen = node.dashboard or DEFAULT
    address = listen or chosen.listen
    certificate, key = chosen.certificate, chosen.key
    if certificate is None and not address.loopback:
        certificate, key = (node.identity.current / name for name in ("node.crt", "node.key"))
    for path in (certificate, key):
        if path is not None and not path.exists():
            raise NodeError(f"{path} does not exist: it is to serve the dashboard on {address}")
    return Settings(address.host, address.port, certificate, key, chosen.metrics)


def place_of(node: CoordinatorNode) -> Place:
    """What the dashboard reads, asks and may order."""
    name = node.identity.load().name
    return Place(
        name.name,
        name.federation,
        node.state,
        node.ledger,
        node.trail,
        models_of(node.folder),
        _Aggregators(node).status,
        Coordinator(node.folder),
    )


@dataclass
class _Aggregators:
    """Asks the control ports, with the coordinator's own certificate."""

    node: CoordinatorNode

    def __post_init__(self) -> None:
        self._controls: dict[str, Control] = {}

    async def status(self, name: NodeName) -> aggregator_pb2.StatusResponse:
        address = self.node.aggregators.get(name.name)
        if address is None:
            raise CoordinatorError(f"node.toml has no address of {name.name}")
        control = self._controls.setdefault(name.uri, Control(self.node.identity, name, str(address)))
        answer: aggregator_pb2.StatusResponse = await control.call(
            "Status", aggregator_pb2.StatusRequest(), STATUS_SECONDS
        )
        return answer


def main(folder: Path, listen: Address | None = None, until_input_ends: bool = False) -> None:
    """Serve the pages of the coordinator in this folder."""
    node = coordinator_node(folder)
    asyncio.run(serve(settings_of(node, listen), place_of(node), until_input_ends))
