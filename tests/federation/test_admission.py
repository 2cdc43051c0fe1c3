"""Policies fail closed, and what was admitted stays on record."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parley.aggregator import admission as aggregator_admission
from parley.aggregator.refusals import CallRefusedError
from parley.coordinator import process as nodes_coordinator
from parley.coordinator.errors import RunFailedError
from parley.federation.admission import Admission, AdmissionRecord, Refusal, admit, approve_by_hand
from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.policy_file import read_policy
from parley.node.authority import ThrowAwayAuthority
from parley.node.node_file import NoiseSettings
from tests.support import documents
from tests.support.documents import AGGREGATOR_POLICY, manifest, meaning
from tests.support.parsed import counted
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
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
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
            record=record,
            identity=lambda: identity,
            peer=peer,
            role=0,
            offered=NoiseSettings(),
            policy_path=tmp_path / "policy.toml",
            verified=tmp_path,
            note=lambda *_: "",
        )
        return await admissions.propose(manifest().canonical, manifest().identities(Role.coordinator)[0].uri)

    answer = asyncio.run(propose())
    assert not answer.admitted
    assert answer.pending  # a person can still approve it
    assert [reason.partition(":")[0] for reason in answer.reasons] == ["parties"]

    (tmp_path / "policy.toml").write_text(
        documents.COORDINATOR_POLICY.replace("largest_rounds = 40", "largest_rounds = 2")
    )
    paths = {"admissions": "lead.sqlite", "policy": "policy.toml", "verified": "", "state": "state"}
    home = SimpleNamespace(**{name: tmp_path / path for name, path in paths.items()})
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
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    digest = manifest().digest.hex()
    stranger = NodeName("cardio", Role.party, "hospital-z")
    chosen = policy(tmp_path, Role.party)
    assert isinstance(approve_by_hand(record, meaning(), stranger, chosen, 0.0, digest, "dpo"), Refusal)
    assert isinstance(approve_by_hand(record, meaning(), node(Role.party), chosen, spent, digest, "dpo"), Refusal)
    assert not record.all()


def test_a_runs_name_is_taken_once(tmp_path: Path) -> None:
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    chosen = policy(tmp_path, Role.party)
    assert isinstance(admit(record, meaning(), node(Role.party), chosen, 0.0), Admission)
    second = meaning(**{"mechanism.noise_multiplier": 1.3})
    with pytest.raises(ApprovalError, match="used only once"):
        admit(record, second, node(Role.party), chosen, 0.0)
    with pytest.raises(ApprovalError):
        record.require(second.manifest.digest)


def test_what_is_withdrawn_stays_out(tmp_path: Path) -> None:
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
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


def test_who_has_a_manifest_hands_it_to_the_record_which_parses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = manifest(), manifest(run="heart-2")
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    parsed = counted(monkeypatch)
    assert record.put(made, "policy", "policy").manifest is made
    assert record.require(made.digest, made) is made
    assert record.all({made.digest: made})[0][0].manifest is made
    assert not parsed
    record.put(other, "policy", "policy")
    assert [found.manifest for found, _ in record.all({made.digest: made})] == [made, other]
    assert parsed == [other.canonical]
    record.close()


def test_a_manifest_that_is_handed_in_hides_no_altered_row(tmp_path: Path) -> None:
    record = AdmissionRecord(tmp_path / "admissions.sqlite")
    made = manifest()
    record.put(made, "policy", "policy")
    for data in (manifest(**{"mechanism.noise_multiplier": 1.3}).canonical, made.canonical + b" "):
        with sqlite3.connect(tmp_path / "admissions.sqlite") as direct:
            direct.execute("UPDATE admissions SET manifest = ?", (data,))
        with pytest.raises(ApprovalError, match="altered"):
            record.require(made.digest, made)
        with pytest.raises(ApprovalError, match="altered"):
            record.all({made.digest: made})
        with pytest.raises(ApprovalError, match="altered"):
            record.put(made, "policy", "policy")
    record.close()


class Proposing:
    """One aggregation server's admissions, and proposals of its coordinator."""

    def __init__(self, folder: Path) -> None:
        (folder / "policy.toml").write_text(AGGREGATOR_POLICY)
        identity = ThrowAwayAuthority("cardio").issue_as(node(Role.aggregator))
        self.record = AdmissionRecord(folder / "admissions.sqlite")
        self.admissions = aggregator_admission.Admissions(
            record=self.record,
            identity=lambda: identity,
            peer=NodeName("cardio", Role.aggregator, "south"),
            role=0,
            offered=NoiseSettings(),
            policy_path=folder / "policy.toml",
            verified=folder,
            note=lambda *_, **__: "",
        )

    async def propose(self, data: bytes) -> Any:
        return await self.admissions.propose(data, NodeName("cardio", Role.coordinator, "lead").uri)

    async def admitted(self, data: bytes) -> int:
        """Until it is; how often it was proposed."""
        proposals = 1
        while not (await self.propose(data)).admitted:
            await asyncio.sleep(0)
            proposals += 1
        return proposals


def test_a_server_parses_a_manifest_once_however_often_it_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is admitted, when its record is read again, and when another run is admitted."""
    monkeypatch.setattr(aggregator_admission, "verify_apart", lambda made, kept: replace(meaning(), manifest=made))
    first, second = manifest().canonical, manifest(run="heart-2").canonical
    server = Proposing(tmp_path)
    parsed = counted(monkeypatch)

    async def both() -> None:
        assert await server.admitted(first) > 1
        assert (await server.propose(first)).admitted
        await server.admitted(second)

    asyncio.run(both())
    assert parsed == [first, second]
    server.record.withdraw(manifest().digest)  # as another process would
    assert server.admissions.manifest(manifest().digest) is None
    assert server.admissions.manifest(manifest(run="heart-2").digest) == manifest(run="heart-2")
    assert parsed == [first, second]
    server.record.close()


def test_manifests_that_nobody_admits_are_kept_four_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And bytes that are no manifest, or not the parsed one's, are judged every time."""
    server = Proposing(tmp_path)
    (tmp_path / "policy.toml").write_text(AGGREGATOR_POLICY.replace("largest_parties = 10", "largest_parties = 2"))
    every = [manifest(run=f"heart-{number}").canonical for number in range(6)]
    parsed = counted(monkeypatch)

    async def flood() -> None:
        for data in [*every, every[-1], every[2], every[0]]:
            assert (await server.propose(data)).pending
        for _ in range(2):
            with pytest.raises(CallRefusedError):
                await server.propose(every[0] + b" ")

    asyncio.run(flood())
    assert parsed == [*every, every[0], *[every[0] + b" "] * 2]
    assert [len(held) for held in server.admissions._proposed.values()] == [aggregator_admission.MOST_VERIFIED]
    server.record.close()
