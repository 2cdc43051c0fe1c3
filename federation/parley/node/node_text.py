"""A node's node.toml: the inverse of `parley.node.node_file.read_node`, and the only writer of one.

`parley init` writes a commented one for people to fill in, from a template.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.federation.toml_text import toml_text
from parley.node.data_sets import data_tables, path_text
from parley.node.node_file import (
    COORDINATOR_BUDGET,
    NODE_FILE,
    PARTIES_CONNECTIONS,
    Address,
    AggregatorNode,
    AnyNode,
    CoordinatorNode,
    LogSettings,
    NoiseSettings,
    PartyNode,
)


def write_node(node: AnyNode) -> None:
    """Into its folder."""
    (node.folder / NODE_FILE).write_text(node_text(node))


def node_text(node: AnyNode) -> str:
    """What is as it would be without a word is left out."""
    match node:
        case PartyNode():
            body = _party(node)
        case AggregatorNode():
            body = _aggregator(node)
        case CoordinatorNode():
            body = _coordinator(node)
    if node.log != LogSettings():
        body["log"] = {"level": node.log.level, "file": node.log.file}
    if node.metrics is not None:
        body["metrics"] = {"listen": str(node.metrics)}
    if node.notify is not None:
        body["notify"] = node.notify.as_json()
    return toml_text(body) + "\n"


def _party(node: PartyNode) -> dict[str, Any]:
    return {
        "role": node.role.value,
        "coordinator": f"{node.coordinator_name}@{node.coordinator}",
        "aggregators": _named(node.aggregators),
        "data": data_tables(node.data, node.folder),
        "budget": {"epsilon": node.epsilon, "delta": node.delta},
        **({"compute": node.compute.as_json(node.folder)} if node.compute is not None else {}),
    }


def _aggregator(node: AggregatorNode) -> dict[str, Any]:
    listen: dict[str, Any] = {"share": _listeners(node.share), "control": str(node.control)}
    if node.peer_listener is not None:
        listen["peer"] = str(node.peer_listener)
    if node.connections != PARTIES_CONNECTIONS:
        listen["connections"] = node.connections
    peer = {"name": node.peer_name}
    if node.peer_address is not None:
        peer["address"] = str(node.peer_address)
    body: dict[str, Any] = {"role": node.role.value, "listen": listen, "peer": peer}
    if node.noise != NoiseSettings():
        body["noise"] = vars(node.noise)
    return body


def _coordinator(node: CoordinatorNode) -> dict[str, Any]:
    body: dict[str, Any] = {"role": node.role.value, "listen": _listeners(node.listen)}
    if node.connections != PARTIES_CONNECTIONS:
        body["connections"] = node.connections
    body["aggregators"] = _named(node.aggregators)
    if node.evaluation and node.layout is not None:
        body["evaluation"] = {
            "files": _paths(node.evaluation, node.folder),
            "schema": path_text(node.layout, node.folder),
        }
    if (node.epsilon, node.delta) != COORDINATOR_BUDGET:
        body["budget"] = {"epsilon": node.epsilon, "delta": node.delta}
    if (page := node.dashboard) is not None:
        files = {"certificate": page.certificate, "key": page.key}
        body["dashboard"] = {
            "listen": str(page.listen),
            **{name: path_text(path, node.folder) for name, path in files.items() if path is not None},
            **({"metrics": True} if page.metrics else {}),
        }
    if track := node.track.as_json(node.folder):
        body["track"] = track
    return body


def _named(addresses: Mapping[str, Address]) -> dict[str, str]:
    return {name: str(address) for name, address in addresses.items()}


def _listeners(addresses: Sequence[Address]) -> str | list[str]:
    return str(addresses[0]) if len(addresses) == 1 else [str(each) for each in addresses]


def _paths(paths: Sequence[Path], home: Path) -> list[str]:
    return [path_text(each, home) for each in paths]
