"""What is written as a node.toml reads back as the node it was."""

from pathlib import Path
from typing import Any

import pytest

from parley.node.data_sets import DataSet, Query
from parley.node.node_file import (
    Address,
    AggregatorNode,
    AnyNode,
    CoordinatorNode,
    DashboardSettings,
    LogSettings,
    NoiseSettings,
    PartyNode,
    read_node,
)
from parley.node.node_text import node_text, write_node
from parley.node.notify_settings import NotifySettings

HOME = Path("/srv/node")
AT = Address("host.example", 7400)
BOTH = {"north": Address("2001:db8::1", 7401), "south": Address("south.example", 7401)}
NODES: dict[str, AnyNode] = {
    "party": PartyNode(
        folder=HOME, coordinator=AT, coordinator_name="lead", aggregators=BOTH,
        data=(DataSet(
            files=(HOME / "data" / 'a "b".csv', Path("/elsewhere/c.csv")), schema=HOME / "schema.toml",
            population="patients",
        ),), epsilon=4.0, delta=1e-4, log=LogSettings("debug", True),
    ),
    "several": PartyNode(
        folder=HOME, coordinator=AT, coordinator_name="lead", aggregators=BOTH, epsilon=4.0, delta=1e-4,
        data=(
            DataSet(name="one", files=(HOME / "a.csv",), schema=HOME / "a.toml", population="patients"),
            DataSet(
                name="two", files=(HOME / "state" / "snapshot-two.jsonl",), schema=Path("/etc/b.toml"),
                population="staff", query=Query('SELECT "age",\n1 FROM x', HOME / "database.url"),
            ),
            DataSet(
                name="three", files=(HOME / "state" / "snapshot-three.jsonl",), schema=HOME / "c.toml",
                population="patients", query=Query(HOME / "c.sql", Path("/run/secrets/url")),
            ),
        ),
    ),
    "first": AggregatorNode(
        folder=HOME, share=(AT,), control=Address("0.0.0.0", 1), peer_name="south", peer_address=Address("south", 2),
    ),
    "second": AggregatorNode(
        folder=HOME, share=(AT, Address("other", 3)), control=Address("0.0.0.0", 0), peer_name="north",
        peer_listener=Address("::", 5), noise=NoiseSettings("rectangle", "high", 0), connections=64,
        metrics=Address("127.0.0.1", 9464),
    ),
    "coordinator": CoordinatorNode(
        folder=HOME, listen=(AT,), aggregators=BOTH, notify=NotifySettings(command=("/bin/tell", "on call", "-v")),
    ),
    "leader": CoordinatorNode(
        folder=HOME, listen=(AT, Address("other", 7400)), aggregators=BOTH, evaluation=(HOME / "test.csv",),
        layout=HOME / "test.toml", epsilon=2.0, delta=1e-5, connections=5000,
        dashboard=DashboardSettings(Address("127.0.0.1", 7480), HOME / "page.crt", Path("/etc/page.key"), True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NODES)
def test_what_is_written_reads_back_as_the_same_node(tmp_path: Path, kind: str) -> None:
    node = NODES[kind]
    (tmp_path / "node.toml").write_text(node_text(node))
    found = {name: _moved(value, tmp_path) for name, value in vars(node).items()}
    assert vars(read_node(tmp_path)) == found


def test_a_node_is_written_into_its_folder(tmp_path: Path) -> None:
    node = CoordinatorNode(folder=tmp_path, listen=(AT,), aggregators=BOTH)
    write_node(node)
    assert read_node(tmp_path) == node


def _moved(value: object, home: Path) -> object:
    """As a node in `home` has it."""
    if isinstance(value, Path):
        return home / value.relative_to(HOME) if value.is_relative_to(HOME) else value
    if isinstance(value, tuple):
        return tuple(_moved(each, home) for each in value)
    if isinstance(value, DashboardSettings | DataSet | Query):
        moved: dict[str, Any] = {name: _moved(each, home) for name, each in vars(value).items()}
        return type(value)(**moved)
    return value
