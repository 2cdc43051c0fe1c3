"""node.toml: what is read, and that every slip is named."""

from pathlib import Path

import pytest

from parley.federation.names import Role
from parley.node.data_sets import DataSet
from parley.node.errors import NodeError, NodeFileError
from parley.node.node_file import (
    Address,
    AggregatorNode,
    CoordinatorNode,
    LogSettings,
    NoiseSettings,
    PartyNode,
    read_node,
)
from parley.party.process import party_node, settings_of
from tests.support.documents import PARTY_POLICY

PARTY = """
role = "party"
coordinator = "lead@lead.example:7400"
[aggregators]
north = "north.example:7401"
south = "[2001:db8::1]:7401"
[data]
files = ["records.csv", "more/records.csv"]
schema = "schema.toml"
population = "patients"
[budget]
epsilon = 4.0
delta = 1e-4
"""
FIRST = """
role = "aggregator"
[listen]
share = "0.0.0.0:7401"
control = "0.0.0.0:7402"
[peer]
name = "south"
address = "south.example:7403"
"""
SECOND = """
role = "aggregator"
[listen]
share = "0.0.0.0:0"
control = "0.0.0.0:0"
peer = "0.0.0.0:0"
[peer]
name = "north"
[noise]
cover = "rectangle"
precision = "high"
capacity = 1_000
workers = 3
[log]
level = "debug"
file = true
"""
COORDINATOR = """
role = "coordinator"
listen = "0.0.0.0:7400"
[aggregators]
north = "north.example:7402"
south = "south.example:7402"
[evaluation]
files = ["test.csv"]
schema = "test.toml"
"""


def write(folder: Path, text: str) -> Path:
    (folder / "node.toml").write_text(text)
    return folder


def test_a_party_is_read_with_paths_from_its_folder(tmp_path: Path) -> None:
    node = read_node(write(tmp_path, PARTY))
    assert isinstance(node, PartyNode)
    assert node.role is Role.party
    files = (tmp_path / "records.csv", tmp_path / "more/records.csv")
    assert node.data == (DataSet(files=files, schema=tmp_path / "schema.toml", population="patients"),)
    assert str(node.aggregators["south"]) == "[2001:db8::1]:7401"
    assert node.aggregators["south"].host == "2001:db8::1"
    assert (node.epsilon, node.delta) == (4.0, 1e-4)
    assert node.ledger == tmp_path / "state" / "ledger.sqlite"
    assert node.log == LogSettings()
    assert read_node(tmp_path / "node.toml") == node


def test_a_partys_process_takes_what_the_one_parser_read(tmp_path: Path) -> None:
    write(tmp_path, PARTY)
    settings = settings_of(party_node(tmp_path))
    assert (settings.coordinator, settings.coordinator_address) == ("lead", "lead.example:7400")
    assert settings.aggregators == {"north": "north.example:7401", "south": "[2001:db8::1]:7401"}
    assert settings.data[0].files == (tmp_path / "records.csv", tmp_path / "more/records.csv")
    assert (settings.cap.epsilon, settings.cap.delta) == (4.0, 1e-4)
    assert (settings.policy, settings.state) == (tmp_path / "policy.toml", tmp_path / "state")
    write(tmp_path, COORDINATOR)
    with pytest.raises(NodeError, match="is the folder of a coordinator: give a party's"):
        party_node(tmp_path)


def test_a_party_finds_its_only_coordinators_name_in_its_policy(tmp_path: Path) -> None:
    write(tmp_path, PARTY.replace("lead@", ""))
    (tmp_path / "policy.toml").write_text(PARTY_POLICY)
    node = read_node(tmp_path)
    assert isinstance(node, PartyNode)
    assert (node.coordinator_name, node.coordinator) == ("lead", Address("lead.example", 7400))


def test_the_two_aggregators_know_which_one_dials(tmp_path: Path) -> None:
    first = read_node(write(tmp_path, FIRST))
    assert isinstance(first, AggregatorNode)
    assert (first.index, first.peer_name, first.noise) == (0, "south", NoiseSettings())
    second = read_node(write(tmp_path, SECOND))
    assert isinstance(second, AggregatorNode)
    assert (second.index, second.peer_listener) == (1, Address("0.0.0.0", 0))
    assert second.noise == NoiseSettings("rectangle", "high", 1000, 3)
    assert second.log == LogSettings("debug", True)


def test_a_coordinator_is_read_with_and_without_a_public_test_set(tmp_path: Path) -> None:
    node = read_node(write(tmp_path, COORDINATOR))
    assert isinstance(node, CoordinatorNode)
    assert node.evaluation == (tmp_path / "test.csv",)
    assert node.layout == tmp_path / "test.toml"
    without = read_node(write(tmp_path, COORDINATOR.split("[evaluation]")[0]))
    assert isinstance(without, CoordinatorNode)
    assert without.evaluation == ()


@pytest.mark.parametrize(
    ("text", "old", "new", "says"),
    [
        (PARTY, "coordinator =", "coordinater =", "coordinator: is missing; did you mean 'coordinater'"),
        (PARTY, "population", "populaton", "data.population: is missing; did you mean 'populaton'"),
        (PARTY, "[budget]", "extra = 1\n[budget]", "data.extra: is unknown"),
        (PARTY, "lead@lead.example:7400", "https://lead.example:7400", "coordinator: is 'https://lead.example:7400'"),
        (PARTY, "lead.example:7400", "lead.example", "coordinator: is 'lead.example'"),
        (PARTY, "lead.example:7400", "lead.example:70000", "coordinator: is 'lead.example:70000'"),
        (PARTY, "lead.example:7400", "lead.example:0", "port 0 cannot be dialled"),
        (PARTY, "[2001:db8::1]", "2001:db8::1", "aggregators.south: is"),
        (PARTY, "lead@", "Lead 1@", "coordinator: is 'Lead 1@lead.example:7400'"),
        (PARTY, "lead@", "", "coordinator: names no coordinator"),
        (PARTY, 'north = "north.example:7401"', "", "aggregators: are 1"),
        (PARTY, "epsilon = 4.0", "epsilon = 0", "budget.epsilon: is 0"),
        (PARTY, 'files = ["records.csv", "more/records.csv"]', "files = []", "data.files: is empty"),
        (PARTY, 'role = "party"', 'role = "partie"', "did you mean 'party'"),
        (PARTY, 'role = "party"', "role = ", "node.toml: is not TOML"),
        (FIRST, 'address = "south.example:7403"', "", "listen.peer: is missing"),
        (FIRST, "[peer]", 'peer = "0.0.0.0:7403"\n[peer]', "listen.peer: and peer.address are both there"),
        (FIRST, "0.0.0.0:7402", "0.0.0.0:7401", "listen: has one address twice"),
        (SECOND, "capacity", "capasity", "noise.capasity: is unknown (did you mean 'capacity'?)"),
        (SECOND, "rectangle", "circle", "noise.cover: is 'circle'"),
        (SECOND, "workers = 3", "workers = 17", "noise.workers: is 17: give a whole number from 1 to 16"),
        (SECOND, "workers = 3", 'workers = "all"', "noise.workers: is 'all'"),
        (SECOND, "file = true", 'file = "yes"', "log.file: is 'yes'"),
        (SECOND, '"debug"', '"loud"', "log.level: is 'loud'"),
        (COORDINATOR, "[evaluation]", "[evaluations]", "evaluations: is unknown (did you mean 'evaluation'?)"),
    ],
)
def test_a_slip_is_named_with_its_field(tmp_path: Path, text: str, old: str, new: str, says: str) -> None:
    assert old in text
    with pytest.raises(NodeFileError) as refused:
        read_node(write(tmp_path, text.replace(old, new, 1)))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_how_many_connections_a_listener_holds_is_the_operators(tmp_path: Path) -> None:
    lead = 'role = "coordinator"\nlisten = "127.0.0.1:0"\n%s[aggregators]\nnorth = "n:1"\nsouth = "s:1"\n'
    for text, most in ((lead % "", 400), (lead % "connections = 5000\n", 5000)):
        (tmp_path / "node.toml").write_text(text)
        node = read_node(tmp_path)
        assert isinstance(node, CoordinatorNode)
        assert node.connections == most
    for text, most in ((FIRST, 400), (FIRST.replace("[listen]\n", "[listen]\nconnections = 64\n"), 64)):
        (tmp_path / "node.toml").write_text(text)
        server = read_node(tmp_path)
        assert isinstance(server, AggregatorNode)
        assert server.connections == most
    (tmp_path / "node.toml").write_text(lead % "connections = 63\n")
    with pytest.raises(NodeFileError, match="connections: is 63"):
        read_node(tmp_path)


def test_a_folder_without_node_toml_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(NodeFileError, match="parley init"):
        read_node(tmp_path)
