"""What a server refuses before it verifies anything."""

from pathlib import Path
from typing import Any

import pytest

from parley.federation.claimed import reasons_even_if_true
from parley.federation.names import Role
from parley.federation.policy import reasons_against
from tests.support.documents import manifest, meaning
from tests.support.policies import CASES, node, policy

BEFOREHAND = [case for case in CASES if case[0] is not Role.party]


@pytest.mark.parametrize(("role", "change", "changes", "field"), BEFOREHAND)
def test_a_server_names_every_limit_before_it_verifies(
    tmp_path: Path, role: Role, change: tuple[str, str] | None, changes: dict[str, Any], field: str
) -> None:
    """And what it names then it would have named afterwards."""
    chosen = policy(tmp_path, role, *([change] if change else []))
    before = reasons_even_if_true(manifest(**changes), node(role), chosen)
    after = {reason.field for reason in reasons_against(meaning(**changes), node(role), chosen)}
    assert {reason.field for reason in before} >= after
    assert field in {reason.field for reason in before}


@pytest.mark.parametrize("role", [Role.aggregator, Role.coordinator])
def test_what_a_policy_admits_is_not_refused_beforehand(tmp_path: Path, role: Role) -> None:
    assert not reasons_even_if_true(manifest(), node(role), policy(tmp_path, role))
