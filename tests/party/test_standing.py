"""Signatures, objections and answers under one run; and what a running node makes of them."""

import datetime as dt
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parley.party.approval
import parley.party.review
import parley.party.review_store
from parley.federation.errors import ApprovalError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.node.pins import Pins
from parley.node.reviewer_key import ReviewerKey
from parley.party.approval import Signed, approve, object_to, refuse, sign_approval
from parley.party.books import open_ledger
from parley.party.errors import RefusedRunError
from parley.party.outbox import Outbox
from parley.party.process import party_node, settings_of
from parley.party.review import policy_of, sign
from parley.party.review_store import ReviewStore
from parley.party.settings import Settings
from parley.party.standing import admissions_of, holds, standing
from parley.privacy.filters import Charge, Policy
from parley.privacy.mechanism import ROW
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running, charged, gate_of, ledger, verified
from tests.support.reviewers import key, reviewed_policy, sign_now
from tests.support.stage import Stage, question
from tests.support.until import until

RUN = manifest()


def quick(made: Manifest, name: str, rule: Policy, kept: Path) -> tuple[Meaning, Charge]:
    return verified(made.canonical, name, rule)


@pytest.fixture(autouse=True)
def _accounting_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; tests/federation/test_meaning.py has one of its own."""
    monkeypatch.setattr(parley.party.approval, "verify_apart_with_charge", quick)


@pytest.fixture
def settings(party: Path) -> Settings:
    found = settings_of(party_node(party))
    found.policy.write_text(reviewed_policy())
    policy_of(found)
    return found


def signed(
    settings: Settings, name: str, made: Manifest = RUN, answer: str = "", by: ReviewerKey | None = None
) -> Signed:
    return sign_approval(settings, made, made.digest.hex(), name, by or key(name), lambda said: None, answer)


def at(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    moment = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=days)
    for module in (parley.party.review, parley.party.review_store):
        monkeypatch.setattr(module, "now", lambda: moment)


def trail(settings: Settings) -> list[dict[str, Any]]:
    return [json.loads(line) for line in settings.trail.read_text().splitlines()]


def test_a_run_is_admitted_once_enough_reviewers_have_signed_what_it_would_charge(settings: Settings) -> None:
    one = signed(settings, "ada")
    assert (one.approved.admitted, one.approved.reasons, one.standing.enough) == (False, [], False)
    assert admissions_of(settings) == {}
    again = signed(settings, "ada")  # one person twice is one person
    assert (again.approved.admitted, len(again.standing.signatures)) == (False, 1)
    two = signed(settings, "cy")
    assert (two.approved.admitted, two.standing.enough) == (True, True)
    found = admissions_of(settings)["heart-1"]
    assert (found.how, found.by, found.withdrawn) == ("hand", "ada, cy", False)
    assert ["largest_rounds" in each for each in found.overridden] == [True]
    assert holds(settings, RUN)
    told = [each for each in trail(settings) if each["event"] in ("review.signed", "run.approved")]
    assert [each["fields"]["approved_by"] for each in told] == ["ada", "ada", "cy", "ada, cy"]
    assert {each["fields"]["manifest"] for each in told} == {RUN.digest.hex()}
    statement = two.standing.signatures[0].statement
    assert statement["charge"]["epsilon"] == 2.0
    assert {"run", "subject", "node", "policy", "number", "at", "expires"} <= statement.keys()


def test_one_persons_word_is_not_enough_any_more(settings: Settings) -> None:
    with pytest.raises(ApprovalError, match=r"demands 2 signatures of its reviewers \(ada, ben, cy\)"):
        approve(settings, RUN, RUN.digest.hex(), "Dr. Osei", print)
    settings.policy.unlink()  # nor is it without the file, or with half of one
    for text in ("", "role = "):
        with pytest.raises(ApprovalError, match="demands 2 signatures"):
            approve(settings, RUN, RUN.digest.hex(), "Dr. Osei", print)
        settings.policy.write_text(text)
    assert admissions_of(settings) == {}


def test_an_objection_that_the_charge_has_overtaken_says_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ada", "ben"):
        signed(settings, name)

    def late(*given: Any) -> str:
        with closing(open_ledger(settings)) as book:
            book.register("patients", ROW, settings.cap)
            book.reserve(RUN.run, "patients", verified(RUN.canonical, "hospital-c", book.policy)[1])
        return sign(*given)

    monkeypatch.setattr(parley.party.approval, "sign", late)
    with pytest.raises(ApprovalError, match="has begun: `parley party withdraw"):
        object_to(settings, RUN, "cy", key("cy"), "no")


def test_a_key_is_its_reviewers_and_no_others(settings: Settings) -> None:
    for name, by in (("ada", key("ben")), ("eve", key("eve")), ("ada", key("eve"))):
        with pytest.raises(ApprovalError, match=r"reviewer|not the key"):
            signed(settings, name, by=by)
    assert standing(settings, RUN).signatures == ()


def test_a_signature_for_one_run_is_none_for_another(settings: Settings) -> None:
    signed(settings, "ada")
    other = manifest(run="heart-2")
    store = ReviewStore(settings.review)
    (vote,) = store.votes("approval", RUN.digest.hex())
    for kind, subject, who in (
        ("approval", other.digest.hex(), "ada"), ("approval", RUN.digest.hex(), "ben"), ("policy", "3f" * 32, "ada"),
    ):  # fmt: skip
        store.add_vote(kind, subject, who, vote.key, vote.statement, vote.signature)
    store.close()
    assert [(each.reviewer, each.counts) for each in standing(settings, RUN).signatures] == [
        ("ada", True),
        ("ben", False),
    ]
    assert [each.counts for each in standing(settings, other).signatures] == [False]
    assert not signed(settings, "cy", other).approved.admitted


def test_signatures_of_another_node_or_an_altered_statement_do_not_count(settings: Settings) -> None:
    signed(settings, "ada")
    store = ReviewStore(settings.review)
    (vote,) = store.votes("approval", RUN.digest.hex())
    elsewhere = vote.statement.replace(b"hospital-c", b"hospital-b")
    later = vote.statement.replace(b'"expires":"20', b'"expires":"30')
    for statement in (elsewhere, later, b"{", b"[]", b'{"at":1}', b""):
        store.add_vote("approval", RUN.digest.hex(), "ada", vote.key, statement, vote.signature)
        assert [each.counts for each in standing(settings, RUN).signatures] == [False]
    long = json.loads(vote.statement) | {"expires": "2099-01-01T00:00:00+00:00"}
    statement = json.dumps(long).encode()
    store.add_vote("approval", RUN.digest.hex(), "ada", vote.key, statement, key("ada").sign("approval", statement))
    assert [each.why_not for each in standing(settings, RUN).signatures] == ["has run out"]
    store.close()


def test_an_approval_counts_until_it_runs_out(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    signed(settings, "ada")
    at(monkeypatch, 10)
    assert signed(settings, "ben").approved.admitted
    at(monkeypatch, 13)
    assert holds(settings, RUN)
    at(monkeypatch, 15)
    assert not holds(settings, RUN)
    at(monkeypatch, 11)  # nor does a clock that is put back bring it back
    assert not holds(settings, RUN)
    assert signed(settings, "cy").standing.enough


def test_a_reviewer_who_is_taken_out_has_signed_for_nothing(settings: Settings) -> None:
    assert [signed(settings, name).approved.admitted for name in ("ada", "ben")] == [False, True]
    settings.policy.write_text(reviewed_policy(names=("ada", "cy", "dee")))
    for name in ("ada", "ben", "cy"):
        sign_now(settings, name)
    assert not holds(settings, RUN)
    found = {each.reviewer: each.why_not for each in standing(settings, RUN).signatures}
    assert found == {"ada": "was given under another policy", "ben": "is of no reviewer any more"}


def test_an_objection_has_to_be_read_and_answered(settings: Settings) -> None:
    reason = "the purpose is another than we agreed"
    found = object_to(settings, RUN, "ben", key("ben"), reason)
    assert [(each.reviewer, each.reason) for each in found.objections] == [("ben", reason)]
    with pytest.raises(ApprovalError, match=rf"ben on .*: {reason}.*give --answer"):
        signed(settings, "ada")
    assert not signed(settings, "ada", answer="it was agreed on Monday").approved.admitted
    two = signed(settings, "cy", answer="see the minutes")
    assert two.approved.admitted
    assert [each.as_json()["objections"][0]["reviewer"] for each in (two.standing,)] == ["ben"]
    text = settings.trail.read_text()
    assert "review.objected" in text
    for private in ("purpose is another", "agreed on Monday", "minutes"):
        assert private not in text


def test_an_objection_takes_back_what_did_not_answer_it_until_its_reviewer_signs(settings: Settings) -> None:
    assert [signed(settings, name).approved.admitted for name in ("ada", "cy")] == [False, True]
    object_to(settings, RUN, "ben", key("ben"), "no")
    assert not holds(settings, RUN)
    assert {each.why_not for each in standing(settings, RUN).signatures} == {
        "does not answer an objection that came later: sign once more"
    }
    assert signed(settings, "ben").standing.objections == ()  # who signs has no objection any more
    assert holds(settings, RUN)
    object_to(settings, RUN, "ada", key("ada"), "I was wrong")  # and who objects has not signed
    found = {each.reviewer: each.counts for each in standing(settings, RUN).signatures}
    assert found == {"ada": False, "ben": False, "cy": False}


def test_with_too_few_reviewers_left_the_run_is_refused_for_good(settings: Settings) -> None:
    assert object_to(settings, RUN, "ada", key("ada"), "no").refused is None
    found = object_to(settings, RUN, "ben", key("ben"), "no")
    assert found.refused is not None
    assert (found.refused.by, found.enough) == ("ada, ben", False)
    with pytest.raises(ApprovalError, match="was refused here for good"):
        signed(settings, "cy", answer="but")


def test_a_refusal_is_for_good_and_its_reason_stays(settings: Settings) -> None:
    settings.policy.write_text(reviewed_policy())
    for by, reason in (("", "no"), ("Dr. Osei", ""), ("Dr. Osei", "two\nlines"), ("Dr.\nOsei", "no"), ("D" * 81, "no")):
        with pytest.raises(ApprovalError):
            refuse(settings, RUN, by, reason)
    found = refuse(settings, RUN, "Dr. Osei", "the ethics board said no")
    assert found.refused is not None
    assert (found.refused.by, found.refused.reason) == ("Dr. Osei", "the ethics board said no")
    assert refuse(settings, RUN, "Dr. Grey", "again") == found  # the first word stays
    with pytest.raises(ApprovalError, match="refused here for good"):
        signed(settings, "ada")
    assert "ethics" not in settings.trail.read_text()
    admitted = manifest(run="heart-2")
    assert [signed(settings, name, admitted).approved.admitted for name in ("ada", "cy")] == [False, True]
    with pytest.raises(ApprovalError, match="parley party withdraw NODE heart-2"):
        refuse(settings, admitted, "Dr. Osei", "too late")


def test_final_reasons_stay_final_whoever_signs(settings: Settings) -> None:
    settings.policy.write_text(reviewed_policy().replace("epsilon_total = 4.0", "epsilon_total = 1.0"))
    assert [sign_now(settings, name) is None for name in ("ada", "ben")] == [False, True]
    found = signed(settings, "ada")
    assert not found.approved.admitted
    assert "epsilon_total" in " ".join(found.approved.reasons)
    assert found.standing.signatures == ()


def states(stage: Stage) -> dict[str, tuple[str, str]]:
    path = stage.node / "state" / "outbox.sqlite"
    if not path.exists():
        return {}
    outbox = Outbox(path)
    found = {held.run: (held.state, held.reason) for held in outbox.runs()}
    outbox.close()
    return found


def signed_by_two(stage: Stage) -> tuple[Settings, Manifest]:
    """A run that reviewers have signed before the node has heard of it."""
    made = manifest(**EVERYONE)
    (stage.node / "policy.toml").write_text(reviewed_policy())
    settings = settings_of(party_node(stage.node))
    policy_of(settings)
    for name in ("ada", "ben"):
        signed(settings, name, made)
    return settings, made


@pytest.mark.usefixtures("verified_in_process")
def test_a_node_joins_on_signatures_and_answers_although_they_run_out_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = manifest(**EVERYONE)
    (stage.node / "policy.toml").write_text(reviewed_policy())
    settings = settings_of(party_node(stage.node))
    stage.offer(made)
    with Running(stage):
        until(lambda: states(stage).get("heart-1", ("", ""))[0] == "waiting")
        # An editor of policy.toml does not let it in.
        settings.policy.write_text(reviewed_policy().replace("largest_rounds = 2", "largest_rounds = 40"))
        signed(settings, "ada", made)
        assert not stage.coordinator.joins
        signed(settings, "ben", made)
        until(lambda: stage.coordinator.joins)
        assert stage.coordinator.joins[0].accepted
        charged(stage, made)
        at(monkeypatch, 15)
        assert not holds(settings, made)
        zero = np.zeros(made.model.dimension)
        stage.coordinator.ask(question(made, 1, (zero, zero)))
        stage.opened(1)
        assert states(stage)["heart-1"][0] == "joined"


@pytest.mark.usefixtures("verified_in_process")
def test_an_approval_that_runs_out_before_the_charge_charges_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, made = signed_by_two(stage)
    stage.offer(made)
    with Running(stage):
        until(lambda: stage.coordinator.joins)
        at(monkeypatch, 15)
        stage.coordinator.ask(question(made, 0, (np.zeros(made.model.dimension),)))
        said = until(lambda: [each for each in stage.coordinator.joins if not each.accepted])[0].reason
        assert "this party takes no part in run heart-1" in said
        assert not ledger(stage).runs
        assert not stage.a.pieces


@pytest.mark.usefixtures("verified_in_process")
def test_signatures_are_for_the_charge_that_they_name_and_no_other(stage: Stage) -> None:
    settings, made = signed_by_two(stage)
    with closing(gate_of(stage)) as gate:
        ready = gate.approved(made)
        assert ready is not None
        with pytest.raises(RefusedRunError, match="before both aggregators"):  # the signatures hold
            gate.charge(made, ready, (), Pins({}))
        # Whoever can write node.toml has another budget charged than the one that was signed for.
        elsewhere = tuple(replace(each, population="another") for each in settings.data)
        gate.settings = replace(settings, data=elsewhere)
        with pytest.raises(RefusedRunError, match="is not admitted here any more"):
            gate.charge(made, ready, (), Pins({}))
        assert not gate.ledger.runs


@pytest.mark.usefixtures("verified_in_process")
def test_what_the_policy_admits_by_itself_meanwhile_does_not_rest_on_signatures_any_more(stage: Stage) -> None:
    settings, made = signed_by_two(stage)
    settings.policy.write_text(reviewed_policy().replace("largest_rounds = 2", "largest_rounds = 40"))
    for name in ("ada", "ben"):
        sign_now(settings, name)
    assert not holds(settings, made)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        assert admissions_of(settings)["heart-1"].how == "policy"
        assert states(stage)["heart-1"][0] == "joined"


@pytest.mark.usefixtures("verified_in_process")
def test_others_hear_that_a_run_is_refused_and_nothing_of_why(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    (stage.node / "policy.toml").unlink()
    settings = settings_of(party_node(stage.node))
    stage.offer(made)
    with Running(stage):
        until(lambda: states(stage).get("heart-1", ("", ""))[0] == "waiting")
        refuse(settings, made, "Dr. Osei", "a private reason")
        until(lambda: stage.coordinator.joins)
        assert not stage.coordinator.joins[0].accepted
        assert "this party takes no part in run heart-1" in stage.coordinator.joins[0].reason
        assert "private" not in stage.coordinator.joins[0].reason
        assert "Osei" not in stage.coordinator.joins[0].reason
        assert until(lambda: states(stage)["heart-1"][0] == "refused")
    assert "private reason" not in (stage.node / "state" / "trail.jsonl").read_text()
