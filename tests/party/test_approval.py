"""A person admits a run at a party by hand: what their word overrides, and what it does not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import parley.party.approval
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import ApprovalError, ManifestError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.party.approval import approve
from parley.party.process import party_node, settings_of
from parley.party.settings import Settings
from parley.privacy.filters import Charge, Policy
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.party_process import verified


@pytest.fixture
def settings(party: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of hospital-c; accounting in this process, for which tests/federation/test_meaning.py has one of its own."""

    def quick(made: Manifest, name: str, rule: Policy, kept: Path) -> tuple[Meaning, Charge]:
        return verified(made.canonical, name, rule)

    monkeypatch.setattr(parley.party.approval, "verify_apart_with_charge", quick)
    return settings_of(party_node(party))


def admitted(settings: Settings) -> list[tuple[str, str, str]]:
    if not settings.admissions.exists():
        return []
    record = AdmissionRecord(settings.admissions)
    found = [(held.manifest.run, held.how, held.approved_by) for held, _ in record.all()]
    record.close()
    return found


def test_a_person_admits_what_the_policy_would_not_and_answers_for_it_by_name(settings: Settings) -> None:
    settings.policy.write_text(PARTY_POLICY.replace("largest_rounds = 40", "largest_rounds = 2"))
    said = list[str]()
    outcome = approve(settings, manifest(), f" {manifest().digest.hex().upper()}\n", "Dr. Osei", said.append)
    assert outcome.admitted
    assert ["largest_rounds" in each for each in outcome.reasons] == [True]
    assert outcome.meaning.manifest.digest == manifest().digest
    assert said == ["computing what the run costs, and the law of its noise"]
    assert admitted(settings) == [("heart-1", "hand", "Dr. Osei")]
    last = json.loads(settings.trail.read_text().splitlines()[-1])
    assert (last["event"], last["fields"]["manifest"]) == ("run.approved", manifest().digest.hex())


def test_a_policy_that_is_not_understood_admits_nothing_by_itself_and_a_person_still_may(settings: Settings) -> None:
    settings.policy.write_text(PARTY_POLICY.replace("epsilon_total", "epsilon_totl"))
    said = list[str]()
    assert approve(settings, manifest(), manifest().digest.hex(), "Dr. Osei", said.append).admitted
    assert ["the policy is not understood" in each for each in said] == [False, True]


def test_a_budget_that_is_used_up_stays_so_whoever_approves(settings: Settings) -> None:
    small = PARTY_POLICY.replace("epsilon_per_run = 2.0", "epsilon_per_run = 0.5")
    settings.policy.write_text(small.replace("epsilon_total = 4.0", "epsilon_total = 0.5"))
    outcome = approve(settings, manifest(), manifest().digest.hex(), "Dr. Osei", print)
    assert not outcome.admitted
    assert "epsilon_total" in " ".join(outcome.reasons)
    assert admitted(settings) == []
    assert "run.approved" not in settings.trail.read_text()


def test_nobody_approves_on_a_budget_that_a_run_without_any_guarantee_has_closed(settings: Settings) -> None:
    (_, charge), (name,) = verified(manifest().canonical, "hospital-c", Policy()), settings.populations
    book = Ledger.open(settings.ledger)
    book.register(name, ROW, settings.cap)
    unknown = replace(charge.cost, epsilon_if_a_server_lies=None, delta_if_a_server_lies=0.0)
    book.reserve("earlier", name, replace(charge, cost=unknown))
    book.charge_for_cheating(["earlier"], "3f" * 32)
    book.close()
    outcome = approve(settings, manifest(), manifest().digest.hex(), "Dr. Osei", print)
    assert not outcome.admitted
    assert "on top of the inf spent" in " ".join(outcome.reasons)


def test_another_documents_digest_or_no_name_admits_nothing(settings: Settings) -> None:
    with pytest.raises(ApprovalError, match="not this manifest's"):
        approve(settings, manifest(), manifest(run="heart-2").digest.hex(), "Dr. Osei", print)
    assert not settings.admissions.exists()  # refused before anything is opened
    for name in ("", " ", "Dr.\nOsei"):
        with pytest.raises(ApprovalError, match="the name of the person"):
            approve(settings, manifest(), manifest().digest.hex(), name, print)
    assert admitted(settings) == []


def test_a_run_on_other_columns_or_other_counts_than_the_partys_is_refused(settings: Settings) -> None:
    other = manifest(**{"schema.features.0.high": 91.0})
    with pytest.raises(ManifestError, match="differs from this party's high"):
        approve(settings, other, other.digest.hex(), "Dr. Osei", print)
    more = manifest(**{"parties.2.sampler": {"kind": "wor", "units": 101, "batch": 5}})
    with pytest.raises(ManifestError, match="101 units"):
        approve(settings, more, more.digest.hex(), "Dr. Osei", print)
    assert admitted(settings) == []
