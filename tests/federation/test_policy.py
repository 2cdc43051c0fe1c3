"""An operator's policy: every limit is named, and the least is the rule."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley.federation.admission import AdmissionRecord, Refusal, admit
from parley.federation.meaning import Meaning
from parley.federation.names import Role
from parley.federation.policy import reasons_against
from tests.support.documents import meaning
from tests.support.policies import CASES, node, policy


@pytest.mark.parametrize(("role", "change", "changes", "field"), CASES)
def test_every_limit_holds_and_is_named(
    tmp_path: Path, role: Role, change: tuple[str, str] | None, changes: dict[str, Any], field: str
) -> None:
    chosen = policy(tmp_path, role, *([change] if change else []))
    reasons = reasons_against(meaning(**changes), node(role), chosen, 0.0)
    assert field in {reason.field for reason in reasons}
    assert isinstance(
        admit(AdmissionRecord(tmp_path / "admissions.sqlite"), meaning(**changes), node(role), chosen, 0.0), Refusal
    )


def test_the_budget_counts_what_was_spent_and_an_unread_ledger_refuses(tmp_path: Path) -> None:
    chosen = policy(tmp_path, Role.party)
    assert not reasons_against(meaning(), node(Role.party), chosen, 2.0)
    for spent in (2.01, None, float("nan"), -1.0):
        assert any(reason.final for reason in reasons_against(meaning(), node(Role.party), chosen, spent))


LYING = "privacy.epsilon_if_a_server_lies"
RUN = ('epsilon_if_a_server_lies_per_run = "any"', "epsilon_if_a_server_lies_per_run = {}")
TOTAL = ('epsilon_if_a_server_lies_total = "any"', "epsilon_if_a_server_lies_total = {}")


def test_what_a_lying_server_may_cost_is_capped_by_number_and_only_any_admits_no_guarantee(tmp_path: Path) -> None:
    known, unknown = meaning(), replace(meaning(), epsilon_if_a_server_lies=None)

    def against(found: Meaning, spent: float | None, *changes: tuple[str, str]) -> list[tuple[str, bool]]:
        chosen = policy(tmp_path, Role.party, *changes)
        reasons = reasons_against(found, node(Role.party), chosen, 0.0, spent)
        return [(reason.field, reason.final) for reason in reasons]

    def of(change: tuple[str, str], figure: float) -> tuple[str, str]:
        return change[0], change[1].format(figure)

    assert known.epsilon_if_a_server_lies == 4.2
    assert against(known, None) == against(unknown, None) == []
    assert against(known, None, of(RUN, 4.2)) == []
    assert against(known, None, of(RUN, 4.1)) == against(unknown, 0.0, of(RUN, 50.0)) == [(LYING, False)]
    assert against(known, 1.0, of(TOTAL, 5.3)) == []
    for found, spent, most in ((known, 1.0, 5.1), (unknown, 0.0, 50.0), (known, None, 50.0)):
        assert against(found, spent, of(TOTAL, most)) == [(LYING, True)]


def test_by_its_caps_a_party_says_whether_audits_are_enough_for_it(tmp_path: Path) -> None:
    """An audit is no figure: what counts of `covert` is what holds if a server lies."""
    found = meaning(**{"noise.security": "covert"})
    assert found.manifest.noise.parts.audit == "1/8"
    assert found.epsilon_if_a_server_lies == 4.2

    def against(*changes: tuple[str, str]) -> list[str]:
        chosen = policy(tmp_path, Role.party, *changes)
        return [str(each) for each in reasons_against(found, node(Role.party), chosen, 0.0, 0.0)]

    assert against() == against((RUN[0], RUN[1].format(4.2))) == []
    (reason,) = against((RUN[0], RUN[1].format(4.1)))
    assert 'it is 4.2 and the policy admits 4.1 per run: raise noise.own, take security = "malicious"' in reason
    found = replace(found, epsilon_if_a_server_lies=None)
    (reason,) = against((RUN[0], RUN[1].format(50)))
    assert "there is no guarantee and the policy admits 50" in reason


def test_one_roles_policy_admits_nothing_for_another(tmp_path: Path) -> None:
    reasons = reasons_against(meaning(), node(Role.aggregator), policy(tmp_path, Role.party), 0.0)
    assert [reason.field for reason in reasons] == ["policy"]
