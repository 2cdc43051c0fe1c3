"""Reviewers' signatures on the page: who has signed, who objects, what is missing; no button goes round them."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley.federation.admission import AdmissionRecord
from parley.federation.errors import TrailError
from parley.node.trail import Trail
from parley.party.approval import object_to, refuse, sign_approval
from parley.party.process import party_node, settings_of
from parley.party.standing import admissions_of
from parley.party.withdrawal import withdraw
from tests.support.party_pages import STRICT, Visitor, asked
from tests.support.reviewers import key, reviewed_policy


def test_where_signatures_are_demanded_the_page_approves_nothing_and_says_what_is_missing(folder: Path) -> None:
    made, settings = asked(), settings_of(party_node(folder))
    before = folder / "policy.toml"
    with Visitor(folder) as visitor:
        old = visitor.form(visitor.page(made), "approve", typed=made.digest.hex()[:8])
        before.write_text(reviewed_policy(text=STRICT))
        page = visitor.page(made, "Reviewers")  # not in force yet: no process has judged a run by it
        assert "0 of 2 signatures; 2 missing" in page
        assert 'id="approve"' not in page
        assert f"parley party approve {folder} heart-2 --digest {made.digest.hex()} --reviewer NAME --key FILE" in page
        assert visitor.send(made, "approve", old).status_code == 409
        fresh = {**old, "shown": visitor.form(page, "refuse")["shown"]}
        answer = visitor.send(made, "approve", fresh)
        assert (answer.status_code, "sign this run with their own keys" in answer.text) == (422, True)
        sign_approval(settings, made, made.digest.hex(), "ada", key("ada"), lambda _: None)
        page = visitor.page(made, "1 of 2 signatures; 1 missing")
        assert "<strong>ada</strong> signed" in page
        object_to(settings, made, "ben", key("ben"), "the purpose is another than we agreed")
        page = visitor.page(made, "the purpose is another than we agreed")
        assert "0 of 2 signatures; 2 missing" in page
        assert "it does not count" in page
        assert "--answer" in page
        assert not settings.admissions.exists() or 'id="approve"' not in page


def test_a_refusal_by_the_command_is_shown_and_closes_the_form(folder: Path) -> None:
    made = asked()
    with Visitor(folder) as visitor:
        fields = visitor.form(visitor.page(made), "approve", typed=made.digest.hex()[:8])
        refuse(settings_of(party_node(folder)), made, "Dr. Ben Kato", "no ethics vote")
        answer = visitor.send(made, "approve", fields)
        assert answer.status_code == 409
        assert "no ethics vote" in answer.text
        assert 'id="approve"' not in answer.text


@pytest.mark.parametrize(("what", "event"), [("approve", "run.approved"), ("refuse", "review.refused")])
def test_what_the_trail_cannot_note_is_not_done_and_the_page_does_not_say_that_nothing_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, event: str
) -> None:
    made, real = asked(), Trail.append

    def full(trail: Trail, noted: str, **facts: Any) -> str:
        if noted == event:
            raise TrailError("trail.jsonl cannot be written (No space left on device): check the disk")
        return real(trail, noted, **facts)

    with Visitor(folder) as visitor:
        fields = visitor.form(visitor.page(made, "Decide"), what, typed=made.digest.hex()[:8], reason="no")
        monkeypatch.setattr(Trail, "append", full)
        said = visitor.send(made, what, fields).text.partition('role="alert">')[2].partition("<")[0]
        assert said.startswith("It may have been recorded: look at the run. trail.jsonl cannot be written")
        monkeypatch.setattr(Trail, "append", real)
        settings = settings_of(party_node(folder))
        assert made.run not in admissions_of(settings)
        # Nothing stands in the way of what a person decides next: the refusal has left nothing behind.
        again = visitor.form(visitor.page(made, "Decide"), "approve", typed=made.digest.hex()[:8])
        assert visitor.send(made, "approve", again).status_code == 303


def test_a_withdrawal_that_the_trail_cannot_note_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, made = party_node(folder), asked()
    settings_of(node).state.mkdir(mode=0o700, exist_ok=True)
    with closing(AdmissionRecord(node.admissions)) as record:
        record.put(made, "policy", "policy")

    def full(trail: Trail, noted: str, **facts: Any) -> str:
        raise TrailError("no space")

    with monkeypatch.context() as patched, pytest.raises(TrailError):
        patched.setattr(Trail, "append", full)
        withdraw(node, made.run, "Dr. Osei")
    with closing(AdmissionRecord(node.admissions)) as record:
        assert record.held(made.run) == (made.digest, False)
    listed = settings_of(node).exclusions_of(made.digest)
    listed.parent.mkdir(mode=0o700, exist_ok=True)
    listed.write_text("P-1047\n")
    withdraw(node, made.run, "Dr. Osei")
    with closing(AdmissionRecord(node.admissions)) as record:
        assert record.held(made.run) == (made.digest, True)
    assert not listed.exists(), "though the node never starts again"
