"""What a change of policy.toml would mean, in sentences that a person who signs can follow."""

from dataclasses import replace
from pathlib import Path

import pytest

from parley.federation.names import Role
from parley.federation.policy import PartyPolicy
from parley.party.policy_words import LONGEST, MOST_LINES, differences, raises_a_cap
from parley.privacy.filters import Cap
from tests.support.policies import policy

CAP = Cap(4.0, 1e-4)


def test_each_field_is_a_sentence() -> None:
    old = {"a": 1, "b": 2.0, "gone": "x", "names": ["p", "q"], "same": True, "table": {"x": 1}, "kind": 1}
    new = {"a": 3, "b": 1.5, "new": "y", "names": ["q", "r"], "same": True, "table": {"x": 1, "y": 2}, "kind": "any"}
    assert differences(old, new, CAP, Cap(4.0, 1e-5)) == [
        "a is raised from 1 to 3",
        "b is lowered from 2 to 1.5",
        'gone is taken out; it was "x"',
        'names takes out "p" and adds "r"',
        "table.y is added: 2",
        'kind is "any" instead of 1',
        'new is added: "y"',
        "[budget] delta of node.toml is lowered from 0.0001 to 1e-05",
    ]
    assert differences(old, old, CAP, CAP) == []
    assert differences({"a": ["x", "y"]}, {"a": ["y", "x"]}, CAP, CAP) == ["a is in another order"]
    assert differences({"a": 1}, {"a": 1.0}, CAP, CAP) == ["a is 1.0 instead of 1"]
    assert differences({"a": {"x": 1}}, {}, CAP, CAP) == ["a is taken out; it was x 1"]


def test_what_is_shown_is_bounded_and_can_be_printed() -> None:
    many = {f"f{n}": "x\x1b[31m" * 100 for n in range(1000)}
    found = differences({}, many, CAP, CAP)
    assert len(found) == MOST_LINES + 1
    assert found[-1] == "and 800 more"
    assert all(len(each) <= LONGEST and each.isprintable() for each in found)


@pytest.mark.parametrize(
    ("change", "larger"),
    [
        ({"epsilon_total": 4.1}, True),
        ({"epsilon_total": 3.9}, False),
        ({"epsilon_if_a_server_lies_total": 9.0}, False),
        ({"largest_rounds": 9_999}, False),
        ({"delta_per_run": 2e-5}, True),
    ],
)
def test_any_is_more_than_every_number(tmp_path: Path, change: dict[str, float], larger: bool) -> None:
    old = policy(tmp_path, Role.party)
    assert isinstance(old, PartyPolicy)
    new = replace(old, **change)  # type: ignore[arg-type]
    assert raises_a_cap(old, new, CAP, CAP) is larger
    limited = replace(old, epsilon_if_a_server_lies_total=5.0)
    assert raises_a_cap(limited, old, CAP, CAP)
    assert raises_a_cap(old, old, CAP, Cap(4.0, 2e-4))
