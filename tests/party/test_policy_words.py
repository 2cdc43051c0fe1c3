"""What a change of policy.toml would mean, in sentences that a person who signs can follow."""

from dataclasses import replace
from pathlib import Path

import pytest

from parley.federation.names import Role
from parley.federation.policy import PartyPolicy
from parley.party.policy_words import differences, raises_a_cap
from parley.privacy.filters import Cap
from tests.support.policies import policy

CAP = Cap(4.0, 1e-4)


def test_each_field_is_a_sentence() -> None:
    old = {"a": 1, "b": 2.0, "gone": "x", "names": ["p", "q"], "same": True, "table": {"x": 1}, "kind": 1}
    new = {"a": 3, "b": 1.5, "new": "y", "names": ["q", "r"], "same": True, "table": {"x": 1, "y": 2}, "kind": "any"}
    assert differences(old, new, CAP, Cap(4.0, 1e-5)) == [
        "[budget] delta of node.toml is lowered from 0.0001 to 1e-05",
        "a is raised from 1 to 3",
        "b is lowered from 2 to 1.5",
        'gone is taken out; it was "x"',
        'names takes out "p" and adds "r"',
        "table.y is added: 2",
        'kind is "any" instead of 1',
        'new is added: "y"',
    ]
    assert differences(old, old, CAP, CAP) == []
    assert differences({"a": ["x", "y"]}, {"a": ["y", "x"]}, CAP, CAP) == ["a is in another order"]
    assert differences({"a": 1}, {"a": 1.0}, CAP, CAP) == ["a is 1.0 instead of 1"]
    assert differences({"a": {"x": 1}}, {}, CAP, CAP) == ["a is taken out; it was x 1"]


def test_nothing_is_cut_and_the_budget_and_the_reviewers_come_first() -> None:
    many = {f"f{n}": "x\x1b[31m" * 100 for n in range(1000)}
    names = [*("a" * 150 for _ in range(3)), "the last one"]
    found = differences({"models": []}, many | {"models": names, "review": {"policy": 1}}, CAP, Cap(1000.0, 1e-4))
    assert found[:2] == ["[budget] epsilon of node.toml is raised from 4 to 1000", "review is added: policy 1"]
    assert found[2].endswith('"the last one"')
    assert len(found) == 1003
    assert all(each.isprintable() for each in found)


def test_what_a_terminal_does_not_show_is_spelled_out() -> None:
    """Such as a mark that turns the direction of writing around."""
    one, two = (differences({}, {f"a{mark}b": 1}, CAP, CAP) for mark in "\u202e\u200b")
    assert (one, two) == (["a\\u202eb is added: 1"], ["a\\u200bb is added: 1"])


@pytest.mark.parametrize(
    ("change", "larger"),
    [
        ({"epsilon_total": 4.1}, True),
        ({"epsilon_total": 3.9}, False),
        ({"epsilon_if_a_server_lies_total": 9.0}, False),
        ({"largest_rounds": 9_999}, False),
        ({"delta_per_run": 2e-5}, True),
        ({"unit_column": None}, True),
        ({"unit_column": "visit"}, True),
        ({"minimum_parties": 2}, True),
        ({"minimum_parties": 4}, False),
    ],
)
def test_any_is_more_than_every_number(tmp_path: Path, change: dict[str, float | str | None], larger: bool) -> None:
    found = policy(tmp_path, Role.party)
    assert isinstance(found, PartyPolicy)
    old = replace(found, unit_column="patient", minimum_parties=3)
    new = replace(old, **change)  # type: ignore[arg-type]
    assert raises_a_cap(old, new, CAP, CAP) is larger
    limited = replace(old, epsilon_if_a_server_lies_total=5.0)
    assert raises_a_cap(limited, old, CAP, CAP)
    assert raises_a_cap(old, old, CAP, Cap(4.0, 2e-4))
    assert not raises_a_cap(replace(old, unit_column=None), old, CAP, CAP)
