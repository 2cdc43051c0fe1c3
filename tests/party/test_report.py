"""What a party signs of its own books: what left, what was charged, both ends; and no figure of its records."""

import base64
import json
import re

import pytest

import parley.party.report
from parley.cli.reports import signed_report
from parley.node.pins import key_text
from parley.node.trail import events_in
from parley.report.check import FORMS, verified
from parley.report.content import fingerprint
from parley.report.document import document
from parley.report.errors import ReportError
from tests.support.documents import manifest
from tests.support.memories import state
from tests.support.party_process import EVERYONE, Running, charged, ledger
from tests.support.party_process import verified as accounted
from tests.support.reports import PEOPLE
from tests.support.stage import LEAD, NORTH, SOUTH, Stage
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


@pytest.fixture(autouse=True)
def _accounted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short-lived process's figures, computed once for all tests here."""
    monkeypatch.setattr(
        parley.party.report,
        "verify_apart_with_charge",
        lambda made, name, rule, kept: accounted(made.canonical, name, rule),
    )


def answered(stage: Stage) -> None:
    """One round, and the end by both servers' word."""
    made = manifest(**EVERYONE, **PEOPLE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.finish(stage.ends(made, 1))
        until(lambda: state(stage) == "settled")


def test_it_says_what_left_to_whom_and_what_both_servers_signed(stage: Stage) -> None:
    answered(stage)
    found = signed_report(stage.node).content
    assert found["run"]["run"] == "heart-1"
    assert found["run"]["rounds"] == 1
    assert found["run"]["admitted"]["how"] == "policy"
    left = {each["to"]: each for each in found["left"]}
    assert set(left) == {NORTH.uri, SOUTH.uri, LEAD.uri}
    assert left[NORTH.uri]["bytes"] == len(stage.a.payloads[0])
    assert left[SOUTH.uri]["bytes"] == len(stage.b.payloads[0])
    assert left[LEAD.uri]["bytes"] is None
    assert {each["aggregator"]: each["openings"] for each in found["servers"]["ends"]} == {NORTH.uri: 1, SOUTH.uri: 1}
    assert found["servers"]["settled_on"]["openings"] == 1
    assert found["servers"]["checked"] is None
    held = ledger(stage)
    (budget,) = found["budgets"]
    (run,) = budget["runs"]
    assert (run["epsilon"], run["delta"]) == (held.runs["heart-1"].cost.epsilon, held.runs["heart-1"].cost.delta)
    assert run["charged"] <= run["ended"]
    assert found["books"]["ledger_head"] == str(held.verify())
    said = str(document(found))
    assert "over, by the signed word of both aggregators" in said
    assert PEOPLE["legal"]["purpose"] in said


def test_every_form_of_it_verifies_and_the_trail_says_that_it_was_signed(stage: Stage) -> None:
    answered(stage)
    made = signed_report(stage.node, "heart-1")
    own = stage.authority.issue_as(next(name for name in stage.identities if name.name == "hospital-a"))
    assert made.content["node"]["pin"] == key_text(own.pin)
    assert made.content["node"]["key_fingerprint"] == fingerprint(own.pin)
    for form in ("json", "html"):
        assert "2 signed words" in verified(FORMS[form](made)).what[2]
    last = [*events_in(stage.node / "state" / "trail.jsonl")][-1]
    assert (last.event, last.fields["run"]) == ("report.signed", "heart-1")


def test_no_secret_of_this_party_is_in_any_form_of_it(stage: Stage) -> None:
    """Planted wherever a node keeps something for its operator's eyes, and looked for in all that is handed out."""
    answered(stage)
    records = (stage.node / "records.csv").read_text().splitlines()[1:]
    secrets = {"speed": "1234567.125", "clipped": "0.8675309", "loss": "0.31415926535", "cut": "7351.25"}
    held = stage.node / "state"
    (held / "speed").mkdir(exist_ok=True)
    for file in (held / "speed").iterdir():
        file.write_text(json.dumps({"records_per_second": float(secrets["speed"]), "rounds": 3}))
    (held / "own-figures.json").write_text(json.dumps(secrets))
    (held / "snapshot.jsonl").write_text(json.dumps(secrets) + "\n")
    seal = json.loads((held / "seal.json").read_text())
    identity = ledger(stage).populations["patients"].identities[0]
    private = {
        *records,
        *secrets.values(),
        identity.digest,
        *hexes(seal),
        str(stage.path),
        "records.csv",
        "schema.toml",
    }
    salt = (held / "ledger.sqlite.salt").read_text().strip()
    private |= {salt, stage.a.payloads[0].hex(), stage.b.payloads[0].hex()}
    made = signed_report(stage.node)
    forms = [FORMS[form](made).decode() for form in ("json", "html")]
    forms.append(base64.b64decode(made.meta).decode())
    for name in private:
        assert len(name) > 6
        for form in forms:
            assert name not in form.replace("<wbr>", ""), name
    try:
        pages = FORMS["pdf"](made)
    except ModuleNotFoundError:
        return
    assert not any(name.encode() in pages for name in private)


def hexes(value: object) -> set[str]:
    """Every digest in it."""
    return set(re.findall(r"[0-9a-f]{32,}", json.dumps(value)))


def test_a_run_that_waits_is_reported_as_one_of_which_nothing_left(stage: Stage) -> None:
    (stage.node / "policy.toml").unlink()
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        until(lambda: state(stage) == "waiting")
    found = signed_report(stage.node).content
    assert found["run"]["state"] == "waits for this party's operator"
    assert {each["bytes"] for each in found["left"]} == {0, None}
    assert found["run"]["admitted"] is None
    assert found["budgets"] == []
    assert "Nothing was released" in str(document(found))


def test_the_newest_run_is_the_newest_that_was_answered_and_others_are_named(stage: Stage) -> None:
    answered(stage)
    stage.offer(manifest(run="heart-2", federation="other", **EVERYONE))
    with Running(stage):
        until(lambda: any(not join.accepted for join in stage.coordinator.joins))
    assert signed_report(stage.node).content["run"]["run"] == "heart-1"
    other = signed_report(stage.node, "heart-2").content
    assert other["run"]["state"] == "refused by this party"
    assert other["servers"]["ends"] == []
    with pytest.raises(ReportError, match="no run 'heart-3' was proposed here: it has heart-1, heart-2"):
        signed_report(stage.node, "heart-3")


def test_a_node_without_a_run_has_nothing_to_report(stage: Stage) -> None:
    with pytest.raises(ReportError, match="has no runs yet"):
        signed_report(stage.node)


def test_ends_that_are_gone_are_not_shown(stage: Stage) -> None:
    answered(stage)
    (file,) = (stage.node / "state" / "ends").iterdir()
    file.unlink()
    found = signed_report(stage.node).content["servers"]
    assert found["ends"] == []
    assert found["settled_on"]["openings"] == 1
