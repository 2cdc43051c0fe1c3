"""Policies fail closed, and what was admitted stays on record."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parley.aggregator import admission as aggregator_admission
from parley.coordinator import process as nodes_coordinator
from parley.coordinator.errors import RunFailedError
from parley.federation.admission import Admission, AdmissionRecord, Refusal, admit, approve_by_hand
from parley.federation.claimed import reasons_even_if_true
from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.federation.names import NodeName, Role
from parley.federation.policy import Policy, read_policy, reasons_against
from parley.node.authority import ThrowAwayAuthority
from parley.node.node_file import NoiseSettings
from tests.federation import documents
from tests.federation.documents import AGGREGATOR_POLICY, COORDINATOR_POLICY, PARTY_POLICY, manifest, meaning

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


@pytest.mark.parametrize("role", list(Role))
def test_what_fits_is_admitted_and_recorded(tmp_path: Path, role: Role) -> None:
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    admission = admit(record, meaning(), node(role), policy(tmp_path, role), 0.0)
    assert isinstance(admission, Admission)
    assert record.require(manifest().digest) == manifest()
    assert admit(record, meaning(), node(role), policy(tmp_path, role), 0.0) == admission


@pytest.mark.parametrize("role", list(Role))
def test_without_a_policy_nothing_is_admitted(tmp_path: Path, role: Role) -> None:
    record = AdmissionRecord(":memory:")
    found = admit(record, meaning(), node(role), None, 0.0)
    assert isinstance(found, Refusal)
    assert [reason.field for reason in found.reasons] == ["policy"]
    with pytest.raises(ApprovalError, match="not admitted"):
        record.require(manifest().digest)
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy(tmp_path / "none.toml")


@pytest.mark.parametrize("role", list(Role))
def test_a_policy_without_one_of_its_fields_or_with_another_is_none(tmp_path: Path, role: Role) -> None:
    lines = POLICIES[role][1].strip().splitlines()
    path = tmp_path / "policy.toml"
    for index, line in enumerate(lines):
        if line.startswith(("north", "south", "[")):
            continue
        path.write_text("\n".join(lines[:index] + lines[index + 1 :]))
        with pytest.raises(PolicyError, match="is missing") as caught:
            read_policy(path)
        assert caught.value.field == line.split()[0]
    path.write_text("surprise = 1\n" + "\n".join(lines))
    with pytest.raises(PolicyError, match=r"^surprise: is unknown"):
        read_policy(path)


CASES: list[tuple[Role, tuple[str, str] | None, dict[str, Any], str]] = [
    (Role.party, ("epsilon_per_run = 2.0", "epsilon_per_run = 1.9"), {}, "privacy.epsilon"),
    (Role.party, ("epsilon_total = 4.0", "epsilon_total = 1.9"), {}, "privacy.epsilon"),
    (Role.party, ("delta_per_run = 1e-5", "delta_per_run = 1e-6"), {}, "privacy.delta"),
    (Role.party, ("minimum_parties = 2", "minimum_parties = 3"), {}, "rounds.minimum_parties"),
    (Role.party, ('unit_column = ""', 'unit_column = "patient"'), {}, "mechanism.unit_column"),
    (Role.party, ('["logistic"]', '["linear"]'), {}, "model.kind"),
    (Role.party, ('["ddp-srm"]', "[]"), {}, "algorithm.name"),
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


@pytest.mark.parametrize(("role", "change", "changes", "field"), CASES)
def test_every_limit_holds_and_is_named(
    tmp_path: Path, role: Role, change: tuple[str, str] | None, changes: dict[str, Any], field: str
) -> None:
    chosen = policy(tmp_path, role, *([change] if change else []))
    reasons = reasons_against(meaning(**changes), node(role), chosen, 0.0)
    assert field in {reason.field for reason in reasons}
    assert isinstance(admit(AdmissionRecord(":memory:"), meaning(**changes), node(role), chosen, 0.0), Refusal)


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


def test_a_manifest_beyond_the_policy_costs_a_server_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No accountant is asked, of an aggregator or of a coordinator."""

    def never(*_: object) -> Any:
        raise AssertionError("was verified")

    monkeypatch.setattr(aggregator_admission, "verify_apart", never)
    monkeypatch.setattr(nodes_coordinator, "verify_apart_with_charge", never)
    (tmp_path / "policy.toml").write_text(
        documents.AGGREGATOR_POLICY.replace("largest_parties = 10", "largest_parties = 2")
    )
    peer = NodeName("cardio", Role.aggregator, "south")
    identity = ThrowAwayAuthority("cardio").issue_as(node(Role.aggregator))
    record = AdmissionRecord(tmp_path / "admissions.sqlite")

    async def propose() -> Any:
        admissions = aggregator_admission.Admissions(
            record, lambda: identity, peer, 0, NoiseSettings(), tmp_path / "policy.toml", tmp_path, lambda *_: ""
        )
        return await admissions.propose(manifest().canonical, manifest().identities(Role.coordinator)[0].uri)

    answer = asyncio.run(propose())
    assert not answer.admitted
    assert answer.pending  # a person can still approve it
    assert [reason.partition(":")[0] for reason in answer.reasons] == ["parties"]

    (tmp_path / "policy.toml").write_text(
        documents.COORDINATOR_POLICY.replace("largest_rounds = 40", "largest_rounds = 2")
    )
    home = SimpleNamespace(admissions=tmp_path / "lead.sqlite", policy=tmp_path / "policy.toml", verified=tmp_path)
    lead = SimpleNamespace(name=node(Role.coordinator), authority=b"")
    books = nodes_coordinator.NodeBooks(home, lead, None, None)  # type: ignore[arg-type]
    with pytest.raises(RunFailedError, match=r"mechanism\.steps: makes rounds 40"):
        asyncio.run(books.admit(manifest()))


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


def test_any_is_the_only_word_for_a_limit(tmp_path: Path) -> None:
    for figure in ('"none"', "0.0", "true", '""'):
        with pytest.raises(PolicyError, match="epsilon_if_a_server_lies_per_run"):
            policy(tmp_path, Role.party, (RUN[0], RUN[1].format(figure)))


def test_one_roles_policy_admits_nothing_for_another(tmp_path: Path) -> None:
    reasons = reasons_against(meaning(), node(Role.aggregator), policy(tmp_path, Role.party), 0.0)
    assert [reason.field for reason in reasons] == ["policy"]


def test_a_person_may_override_a_limit_and_it_is_written_down(tmp_path: Path) -> None:
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    strict = policy(tmp_path, Role.party, ('["logistic"]', '["linear"]'))
    digest = manifest().digest.hex()
    with pytest.raises(ApprovalError, match="digest"):
        approve_by_hand(record, meaning(), node(Role.party), strict, 0.0, digest[:-1] + "0x"[digest[-1] == "0"], "dpo")
    with pytest.raises(ApprovalError, match="name of the person"):
        approve_by_hand(record, meaning(), node(Role.party), strict, 0.0, digest, " ")
    found = approve_by_hand(record, meaning(), node(Role.party), strict, 0.0, digest, "the officer")
    assert isinstance(found, Admission)
    assert (found.how, found.approved_by) == ("hand", "the officer")
    assert found.overridden[0].startswith("model.kind")
    again = AdmissionRecord(tmp_path / "admissions.sqlite")
    assert again.all() == [(found, False)]
    assert (tmp_path / "admissions.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("spent", [3.0, None])
def test_not_even_a_person_overrides_what_is_final(tmp_path: Path, spent: float | None) -> None:
    record = AdmissionRecord(":memory:")
    digest = manifest().digest.hex()
    stranger = NodeName("cardio", Role.party, "hospital-z")
    chosen = policy(tmp_path, Role.party)
    assert isinstance(approve_by_hand(record, meaning(), stranger, chosen, 0.0, digest, "dpo"), Refusal)
    assert isinstance(approve_by_hand(record, meaning(), node(Role.party), chosen, spent, digest, "dpo"), Refusal)
    assert not record.all()


def test_a_runs_name_is_taken_once(tmp_path: Path) -> None:
    record = AdmissionRecord(":memory:")
    chosen = policy(tmp_path, Role.party)
    assert isinstance(admit(record, meaning(), node(Role.party), chosen, 0.0), Admission)
    second = meaning(**{"mechanism.noise_multiplier": 1.3})
    with pytest.raises(ApprovalError, match="used only once"):
        admit(record, second, node(Role.party), chosen, 0.0)
    with pytest.raises(ApprovalError):
        record.require(second.manifest.digest)


def test_what_is_withdrawn_stays_out(tmp_path: Path) -> None:
    record = AdmissionRecord(":memory:")
    chosen = policy(tmp_path, Role.party)
    with pytest.raises(ApprovalError, match="nothing to withdraw"):
        record.withdraw(manifest().digest)
    admit(record, meaning(), node(Role.party), chosen, 0.0)
    record.withdraw(manifest().digest)
    with pytest.raises(ApprovalError, match="withdrawn"):
        record.require(manifest().digest)
    with pytest.raises(ApprovalError, match="withdrawn"):
        admit(record, meaning(), node(Role.party), chosen, 0.0)


def test_an_altered_record_is_noticed(tmp_path: Path) -> None:
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    admit(record, meaning(), node(Role.party), policy(tmp_path, Role.party), 0.0)
    other = manifest(**{"mechanism.noise_multiplier": 1.3}).canonical
    with sqlite3.connect(tmp_path / "admissions.sqlite") as direct:
        direct.execute("UPDATE admissions SET manifest = ?", (other,))
    with pytest.raises(ApprovalError, match="altered"):
        record.require(manifest().digest)


def test_who_has_a_name_is_known_without_a_manifest_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run costs nothing before its first question, so that there may be any number of them."""
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    made = manifest()
    assert record.held(made.run) is None
    record.put(made, "policy", "policy")
    monkeypatch.setattr(Manifest, "from_canonical", None)
    assert record.held(made.run) == (made.digest, False)
    record.withdraw(made.digest)
    assert record.held(made.run) == (made.digest, True)
    record.close()
