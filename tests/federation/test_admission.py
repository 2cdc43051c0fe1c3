"""Policies fail closed, and what was admitted stays on record."""

import asyncio
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parley.aggregator import admission as aggregator_admission
from parley.algorithms.errors import RunFailedError
from parley.coordinator import process as nodes_coordinator
from parley.federation.admission import Admission, AdmissionRecord, Refusal, admit, approve_by_hand
from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.policy import read_policy
from parley.node.authority import ThrowAwayAuthority
from parley.node.node_file import NoiseSettings
from tests.support import documents
from tests.support.documents import manifest, meaning
from tests.support.policies import node, policy


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
    with pytest.raises(ApprovalError, match="taken once"):
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
