"""What an institution's attackers meet: documents that fit each other, or one is refused for a slip of its own."""

from pathlib import Path

import pytest

from parley.attacks.documents import BODY, PARTY, UNITS, changed, manifest, policy_text, schema_text, write_party
from parley.federation.meaning import Meaning
from parley.federation.policy import PartyPolicy, reasons_against
from parley.federation.policy_file import read_policy
from parley.learning.holding import read_holding
from parley.node.node_file import PartyNode, read_node
from parley.party.data import require_equal, understand


def test_values_at_dotted_paths_are_replaced_and_what_was_given_stays() -> None:
    body = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}
    made = changed(body, {"a.b.1.c": 7, "e": {"f": 1}, "e.f": 2})
    assert made == {"a": {"b": [{"c": 1}, {"c": 7}]}, "d": 3, "e": {"f": 2}}
    assert body == {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}
    given = [1, 2]
    changed(body, {"d": given, "d.0": 9})
    assert given == [1, 2]


@pytest.mark.parametrize("path", ["x.y", "a.b.7.c", "a.q.c"])
def test_a_path_that_leads_nowhere_is_an_error(path: str) -> None:
    with pytest.raises((KeyError, IndexError)):
        changed({"a": {"b": []}}, {path: 1})


def test_a_changed_manifest_is_another_one_and_the_body_stays() -> None:
    assert manifest(run="heart-2").run == "heart-2"
    assert manifest().run == BODY["run"] == "heart-1"
    assert manifest(run="heart-2").digest != manifest().digest


def test_manifest_schema_policy_and_node_fit_each_other(tmp_path: Path) -> None:
    """So what an attack changes is the only thing that can be refused."""
    (tmp_path / "schema.toml").write_text(schema_text())
    (tmp_path / "policy.toml").write_text(policy_text())
    write_party(tmp_path)
    made, node, policy = manifest(), read_node(tmp_path), read_policy(tmp_path / "policy.toml")
    assert isinstance(node, PartyNode)
    assert isinstance(policy, PartyPolicy)
    assert (node.coordinator_name, node.data[0].files, node.epsilon) == ("lead", (tmp_path / "records.csv",), 4.0)
    assert {each.port for each in node.aggregators.values()} == {2, 3}
    require_equal(read_holding(node.data[0].schema), made, understand(made), PARTY)
    claimed = Meaning(
        manifest=made,
        epsilon=2.0,
        delta=1e-5,
        worst_party=PARTY.name,
        epsilon_added=0.0,
        delta_added=0.0,
        range_margin_bits=10.0,
        statement="",
        epsilon_if_a_server_lies=None,
    )
    assert reasons_against(claimed, PARTY, policy, 0.0, 0.0) == ()


def test_texts_change_where_they_are_asked_to(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(schema_text(units=UNITS + 1))
    write_party(tmp_path, {"north": 7, "south": 8}, 9, population="others", budget=(1.0, 1e-6))
    node = read_node(tmp_path)
    assert isinstance(node, PartyNode)
    assert (node.coordinator.port, node.aggregators["north"].port, node.data[0].population) == (9, 7, "others")
    assert (node.epsilon, node.delta) == (1.0, 1e-6)
    (tmp_path / "policy.toml").write_text(policy_text(largest_rounds=1))
    assert read_policy(tmp_path / "policy.toml").largest_rounds == 1
