"""`parley party`: approve, refuse, policy and exclude, as people type them."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import parley.party.approval
from parley.cli.commands.doctor import examine
from parley.cli.commands.ledger import app as ledger_app
from parley.cli.commands.party import app
from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.node.doctor import OK, WARNING
from parley.node.reviewer_key import ReviewerKey
from parley.party.outbox import SETTLED, WAITING, Outbox
from parley.party.process import party_node, settings_of
from parley.privacy.filters import Charge, Policy
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.examined import by_check
from tests.support.party_process import verified

SECRET = "correct horse battery"
RUN = manifest()
DIGEST = RUN.digest.hex()


@pytest.fixture
def people(party: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with two reviewers of three due, whose keys lie beside it, and a run that waits."""

    def quick(made: Manifest, name: str, rule: Policy, kept: Path) -> tuple[Meaning, Charge]:
        return verified(made.canonical, name, rule)

    monkeypatch.setattr(parley.party.approval, "verify_apart_with_charge", quick)
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text(SECRET)
    lines = [ReviewerKey.make(tmp_path / f"{each}.key", SECRET.encode(), each).line() for each in ("ada", "ben", "cy")]
    table = "[review]\napproval = 2\nlarger_cap = 3\npolicy = 2\ndays = 14\n[review.reviewers]\n" + "\n".join(lines)
    (party / "policy.toml").write_text(f"{PARTY_POLICY.replace('rounds = 40', 'rounds = 2')}\n{table}\n")
    settings = settings_of(party_node(party))
    settings.state.mkdir(mode=0o700, exist_ok=True)
    outbox = Outbox(settings.outbox)
    outbox.note(RUN.digest, RUN.run, RUN.canonical, WAITING, "largest_rounds")
    outbox.close()
    return party


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def signing(node: Path, who: str) -> list[str]:
    return ["--reviewer", who, "--key", f"{node.parent}/{who}.key", "--passphrase-file", f"{node.parent}/secret"]


def body(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.output.splitlines()[-1])
    return found


def test_two_reviewers_approve_over_the_objection_of_a_third(people: Path) -> None:
    node = str(people)
    alone = call("approve", node, "heart-1", "--digest", DIGEST, "--by", "Dr. Osei")
    assert "demands 2 signatures" in str(alone.exception)
    said = call("refuse", node, "heart-1", "--reason", "not agreed", *signing(people, "cy"))
    assert said.output.startswith("objected to  heart-1")
    unanswered = call("approve", node, "heart-1", "--digest", DIGEST, *signing(people, "ada"))
    assert "cy on" in str(unanswered.exception)
    answered = ["--answer", "agreed on Monday"]
    one = call("approve", node, "heart-1", "--digest", DIGEST, *signing(people, "ada"), *answered)
    assert one.exit_code == 0
    assert "signed, and more signatures are due" in one.output
    status = call("status", node).output
    assert "1 of 2 signatures" in status
    assert "ada signed on" in status
    assert "answers: agreed on Monday" in status
    assert "cy objects, since" in status
    assert "not agreed" in status
    two = body(call("approve", node, "heart-1", "--digest", DIGEST, *signing(people, "ben"), *answered, "--json"))
    assert (two["admitted"], two["standing"]["enough"]) == (True, True)
    run = body(call("status", node, "--json"))["runs"][0]
    assert (run["admitted"]["by"], run["admitted"]["how"]) == ("ada, ben", "hand")
    assert "admitted by ada, ben on 20" in call("status", node).output


def test_the_doctor_names_an_approval_that_does_not_hold_and_a_policy_that_nobody_has_signed(people: Path) -> None:
    for who in ("ada", "ben"):
        call("approve", str(people), "heart-1", "--digest", DIGEST, *signing(people, who))
    found = by_check(examine(people))
    assert found["review"].state == OK
    assert "admitted by ada, ben" in found["run heart-1: policy"].problem
    call("refuse", str(people), "heart-1", "--reason", "no", *signing(people, "cy"))
    (people / "policy.toml").write_text(PARTY_POLICY)
    found = by_check(examine(people))
    assert "too few of the signatures count" in found["run heart-1: policy"].problem
    assert (found["review"].state, "0 of 3 have signed" in found["review"].problem) == (WARNING, True)
    (people / "state" / "review.sqlite").unlink()
    (people / "policy.toml").write_text(PARTY_POLICY)
    assert "has none" in str(call("policy", str(people)).exception)


def test_who_says_both_or_neither_is_asked_who_it_is(people: Path) -> None:
    for command in (
        ["approve", str(people), "heart-1", "--digest", DIGEST],
        ["refuse", str(people), "heart-1", "--reason", "x"],
    ):
        for who in ([], ["--by", "Dr. Osei", *signing(people, "ada")]):
            assert "--reviewer and --key" in str(call(*command, *who).exception)
        assert "--reviewer needs --key" in str(call(*command, "--reviewer", "ada").exception)


def test_a_run_is_refused_for_good_by_a_person(people: Path) -> None:
    done = call("refuse", str(people), "heart-1", "--by", "Dr. Osei", "--reason", "no ethics vote")
    assert done.output.startswith("refused  heart-1")
    assert "no ethics vote" in call("status", str(people)).output


def test_the_policy_in_force_is_shown_and_a_change_is_signed(people: Path) -> None:
    node, path = str(people), people / "policy.toml"
    text = path.read_text()
    path.write_text(PARTY_POLICY)
    assert "no policy with [review] was in force yet" in call("policy", node).output
    path.write_text(text)
    first = call("policy", node).output
    assert first.startswith("in force  policy 1 since 20")
    assert "trusted when it was first seen" in first
    assert "policy.toml says the same" in first
    path.write_text(path.read_text().replace("epsilon_total = 4.0", "epsilon_total = 9.0"))
    shown = call("policy", node).output
    assert "epsilon_total is raised from 4 to 9" in shown
    assert "0 of 3 signatures, for it raises what records may cost" in shown
    for index, who in enumerate(("ada", "ben", "cy")):
        digest = ["--digest", body(call("policy", node, "--json"))["proposal"]["digest"]]
        done = call("policy", node, "--sign", *digest, *signing(people, who), "--json")
        assert "you sign:\n  epsilon_total is raised from 4 to 9" in done.stderr  # before the passphrase
        found = json.loads(done.stdout)
        assert found["in_force"]["number"] == (1 if index < 2 else 2)
    assert found["proposal"] is None
    assert found["in_force"]["signed_by"] == "ada, ben, cy"
    assert "signed by ada, ben, cy" in call("policy", node).output
    assert "who signs" in str(call("policy", node, "--sign").exception)
    assert "--sign needs --digest" in str(call("policy", node, "--sign", *signing(people, "ada")).exception)
    assert "add --sign" in str(call("policy", node, *digest).exception)
    assert "add --sign" in str(call("policy", node, *signing(people, "ada")).exception)
    path.write_text(text)
    asked = next(line for line in call("policy", node).output.splitlines() if line.startswith("to sign it: "))
    pasted = asked.split()[6:10]  # what it prints is what it takes
    path.write_text(text.replace("epsilon_total = 4.0", "epsilon_total = 400.0"))
    assert "once more" in str(call("policy", node, *pasted[1:], *signing(people, "ada")).exception)
    path.write_text(text)
    assert call("policy", node, *pasted[1:], *signing(people, "ada")).exit_code == 0
    path.write_text("role = ")
    assert "cannot be signed" in call("policy", node).output


def test_a_population_of_its_own_takes_as_many_signatures_as_a_larger_cap(people: Path) -> None:
    node = str(people)
    assert "3 signatures" in str(call("populations", node, "--apart", "staff", "--by", "Dr. Osei").exception)
    for due, who in ((2, "ada"), (1, "ben"), (0, "cy")):
        done = call("populations", node, "--apart", "staff", *signing(people, who))
        assert ("declared apart" in done.output) == (due == 0), done.output
        assert due == 0 or f"{due} more signature" in done.output
    last = json.loads((people / "state" / "trail.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["fields"]["approved_by"]) == ("population.apart", "ada, ben, cy")


def test_whom_the_list_names_is_shown_here(people: Path) -> None:
    node = str(people)
    assert "no list is named" in str(call("exclude", node).exception)
    text = (people / "node.toml").read_text()
    (people / "node.toml").write_text(text.replace("[data]", '[data]\nexcluded = "excluded.txt"'))
    done = call("exclude", node, "3", "777")
    assert "1 of 2 in excluded.txt are in the records and count for nothing; 1 were not found: 777" in done.output
    assert "runs that begin from now on" in done.output
    (people / "more").write_text("4\n")
    assert body(call("exclude", node, "--file", str(people / "more"), "--json"))["lists"][0]["matched"] == 2
    assert "2 of 3 in excluded.txt" in call("exclude", node).output
    assert "2 of 3 in excluded.txt" in call("status", node).output
    assert "nobody else is told" in call("check", node, "--run", "heart-1").output


def test_a_withdrawal_says_what_it_does_not_do(people: Path) -> None:
    settings = settings_of(party_node(people))
    record = AdmissionRecord(settings.admissions)
    record.put(RUN, "hand", "Dr. Osei")
    record.close()
    before = body(call("withdraw", str(people), "heart-1", "--by", "Dr. Osei", "--json"))
    assert (before["state"], "no further round is answered" in before["consequence"]) == ("waiting", True)
    outbox = Outbox(settings.outbox)
    outbox.note(RUN.digest, RUN.run, RUN.canonical, SETTLED, "finished")
    outbox.close()
    done = call("withdraw", str(people), "heart-1", "--by", "Dr. Osei")
    assert "was over already" in done.output
    assert "docs/leaving.md" in done.output
    assert CliRunner().invoke(ledger_app, ["show", str(settings.ledger)]).exit_code == 0
