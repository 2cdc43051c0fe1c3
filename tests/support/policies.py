"""Policies and what they admit."""

from pathlib import Path
from typing import Any

from parley.federation.names import NodeName, Role
from parley.federation.policy import Policy
from parley.federation.policy_file import read_policy
from tests.support.documents import AGGREGATOR_POLICY, COORDINATOR_POLICY, PARTY_POLICY

POLICIES = {
    Role.party: ("hospital-a", PARTY_POLICY),
    Role.aggregator: ("north", AGGREGATOR_POLICY),
    Role.coordinator: ("lead", COORDINATOR_POLICY),
}


def node(role: Role) -> NodeName:
    return NodeName("cardio", role, POLICIES[role][0])


def policy(tmp_path: Path, role: Role, *changes: tuple[str, str]) -> Policy:
    text = POLICIES[role][1]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return read_policy(path)


CASES: list[tuple[Role, tuple[str, str] | None, dict[str, Any], str]] = [
    (Role.party, ("epsilon_per_run = 2.0", "epsilon_per_run = 1.9"), {}, "privacy.epsilon"),
    (Role.party, ("epsilon_total = 4.0", "epsilon_total = 1.9"), {}, "privacy.epsilon"),
    (Role.party, ("delta_per_run = 1e-5", "delta_per_run = 1e-6"), {}, "privacy.delta"),
    (Role.party, ("minimum_parties = 2", "minimum_parties = 3"), {}, "rounds.minimum_parties"),
    (Role.party, ('unit_column = ""', 'unit_column = "patient"'), {}, "mechanism.unit_column"),
    (Role.party, ('["logistic"]', '["linear"]'), {}, "model.kind"),
    (Role.party, ('["ddp-srm"]', "[]"), {}, "algorithm.name"),
    (Role.party, None, {"parties.0.data_set": "cardiology"}, "parties"),
    (Role.party, ("models =", 'data_sets = ["staff"]\nmodels ='), {"parties.0.data_set": "cardiology"}, "parties"),
    (Role.party, ('["lead"]', '["other"]'), {}, "coordinator.name"),
    (Role.party, ('north = "North Trust"', ""), {}, "aggregators[0].name"),
    (Role.party, ('"South Foundation"', '"North Trust"'), {}, "aggregators"),
    (Role.party, None, {"aggregators.1.legal_entity": "A third"}, "aggregators[1].legal_entity"),
    (Role.party, None, {"parties.0.name": "hospital-x"}, "parties"),
    (Role.party, None, {"federation": "other"}, "federation"),
    (Role.aggregator, ("minimum_parties = 2", "minimum_parties = 3"), {}, "rounds.minimum_parties"),
    (Role.aggregator, ("largest_parties = 10", "largest_parties = 2"), {}, "parties"),
    (Role.aggregator, ("largest_dimension = 1000", "largest_dimension = 2"), {}, "model.dimension"),
    (Role.aggregator, ("largest_rounds = 40", "largest_rounds = 39"), {}, "mechanism.steps"),
    (Role.aggregator, ('["lead"]', "[]"), {}, "coordinator.name"),
    (Role.aggregator, None, {"aggregators.0.name": "west"}, "aggregators"),
    (Role.coordinator, ("epsilon_per_run = 2.0", "epsilon_per_run = 1.0"), {}, "privacy.epsilon"),
    (Role.coordinator, ("largest_rounds = 40", "largest_rounds = 39"), {}, "mechanism.steps"),
    (Role.coordinator, None, {"coordinator.name": "someone"}, "coordinator"),
]
