"""A party's process: its folder, the ready line, signals. Nothing is served; what it does is in `parley.party`.

`parley party run NODE`; node.toml is read by `parley.node.node_file`.
"""

import json
import signal
from pathlib import Path

from parley.compute.cluster import Cluster
from parley.federation.names import Role
from parley.node import bell, logs, meters, trust
from parley.node.collector import settle
from parley.node.errors import NodeError
from parley.node.node_file import PartyNode, read_node
from parley.node.system import require_linux
from parley.party.client import PartyClient
from parley.party.settings import Settings
from parley.privacy.filters import Cap


def party_node(folder: Path) -> PartyNode:
    node = read_node(folder)
    if not isinstance(node, PartyNode):
        raise NodeError(f"{folder} is the folder of {node.role.with_article}: give a party's")
    return node


def settings_of(node: PartyNode) -> Settings:
    """As `parley.party` takes them, which knows no node.toml."""
    return Settings(
        identity=node.identity,
        policy=node.policy,
        state=node.state,
        coordinator=node.coordinator_name,
        coordinator_address=str(node.coordinator),
        aggregators={name: str(address) for name, address in node.aggregators.items()},
        data=node.data,
        cap=Cap(node.epsilon, node.delta),
        compute=Cluster(**vars(node.compute)) if node.compute is not None else None,
    )


def run(node: Path) -> None:
    """Until SIGTERM or SIGINT; a restart takes up what was under way."""
    here = party_node(node)
    require_linux()
    trust.require(here)
    settings = settings_of(here)
    if settings.compute is not None:
        settings.compute.check()
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = settings.identity.load().name
    name = identity.name
    logs.configure(Role.party, name, settings.state if here.log.file else None, here.log.level)
    meters.start(here, identity)
    bell.install(here, identity)
    client = PartyClient(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: client.stop())
    settle()
    print(json.dumps({"ready": True, "role": "party", "name": name}), flush=True)
    client.serve()
    bell.remove()
