"""What a party's operator configured, and where its files lie: one that moved would be a budget forgotten."""

from dataclasses import replace
from pathlib import Path

import pytest

from parley.node.data_sets import DataSet
from parley.node.errors import NodeError
from parley.party.process import party_node, settings_of
from parley.privacy.filters import Cap


def test_node_toml_becomes_settings(party: Path) -> None:
    settings = settings_of(party_node(party))
    assert (settings.coordinator, set(settings.aggregators)) == ("lead", {"north", "south"})
    assert settings.coordinator_address.startswith("127.0.0.1:")
    files, schema = (party / "records.csv",), party / "schema.toml"
    assert settings.data == (DataSet(files=files, schema=schema, population="patients"),)
    assert (settings.policy, settings.cap) == (party / "policy.toml", Cap(4.0, 1e-4))


def test_all_that_is_durable_lies_in_the_state_folder_under_the_names_it_has_always_had(party: Path) -> None:
    settings = settings_of(party_node(party))
    assert settings.state == party / "state"
    seal = settings.seal(settings.data[0])
    found = (seal, settings.outbox, settings.trail, settings.ledger, settings.admissions, settings.verified)
    names = ["seal.json", "outbox.sqlite", "trail.jsonl", "ledger.sqlite", "admissions.sqlite", "verified"]
    assert [path.relative_to(settings.state).as_posix() for path in found] == names
    assert seal.exists()  # the fixture's operator has sealed: settings look where the command wrote
    assert party_node(party).ledger == settings.ledger
    assert party_node(party).trail == settings.trail


def test_data_sets_are_chosen_by_name_and_have_a_seal_each(party: Path) -> None:
    settings = settings_of(party_node(party))
    assert settings.chosen("") is settings.data[0]
    assert settings.chosen("staff") is None
    named = [replace(settings.data[0], name=name, population=whose) for name, whose in (("a", "x"), ("b", "y"))]
    several = replace(settings, data=(*named, replace(named[0], name="c")))
    assert several.chosen("") is None
    assert several.chosen("b") is named[1]
    assert [several.seal(each).name for each in several.data] == ["seal-a.json", "seal-b.json", "seal-c.json"]
    assert several.populations == ("x", "y")
    assert replace(settings, data=(named[0],)).chosen("") is named[0]


def test_a_folder_of_another_role_is_refused(party: Path) -> None:
    (party / "node.toml").write_text(
        'role = "coordinator"\nlisten = "127.0.0.1:0"\n[aggregators]\nnorth = "127.0.0.1:1"\nsouth = "127.0.0.1:2"\n'
    )
    with pytest.raises(NodeError, match="is the folder of a coordinator: give a party's"):
        party_node(party)
