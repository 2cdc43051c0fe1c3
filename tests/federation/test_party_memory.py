"""What a party has spent, over TLS: exchanged records, lost and older files, charges that come late or come back."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.commands.doctor import examine
from parley.cli.commands.ledger import app as ledger_app
from parley.cli.commands.party import app
from parley.federation.manifest import Manifest
from parley.node.doctor import FAILED, OK, WARNING
from parley.party.admission import exceeded
from parley.party.errors import OutboxError
from parley.party.outbox import Outbox
from parley.party.settlement import settle
from parley.privacy.errors import BudgetExceededError, LedgerCorruptError
from parley.privacy.filters import LYING
from parley.v1 import aggregator_pb2
from tests.federation.documents import PARTY_POLICY, manifest
from tests.federation.party_process import EVERYONE, Running, charged, ledger
from tests.federation.stage import SOUTH, Stage, State, question, wait_for

pytestmark = pytest.mark.usefixtures("verified_in_process")
POINT = np.array([0.1, -0.2, 0.3])


def joined(stage: Stage, made: Manifest) -> None:
    wait_for(lambda: any(each.manifest_digest == made.digest and each.accepted for each in stage.coordinator.joins))


def left(stage: Stage) -> str:
    """Why, as the coordinator hears it."""
    return str(wait_for(lambda: [each.reason for each in stage.coordinator.joins if not each.accepted])[-1])


def state(stage: Stage, run: str = "heart-1") -> str:
    with closing(Outbox(stage.node / "state" / "outbox.sqlite")) as outbox:
        return next((held.state for held in outbox.runs() if held.run == run), "")


def test_nothing_is_charged_before_a_round_is_asked_and_a_run_that_ends_before_costs_nothing(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
        wait_for(lambda: stage.coordinator.requests)
        assert not ledger(stage).runs
        stage.coordinator.say(State(state=State.STATE_ENDED, outcome="failed"))  # nobody has signed anything
        wait_for(lambda: state(stage) == "settled")
        assert not ledger(stage).runs


@pytest.mark.parametrize("words", ["none", "one", "twice", "of another run", "of another party"])
def test_a_round_without_the_word_of_both_aggregators_is_not_answered_and_not_charged(stage: Stage, words: str) -> None:
    made = manifest(**EVERYONE)
    good = stage.words(made.digest)
    offered = {
        "none": [],
        "one": good[:1],
        "twice": good[:1] * 2,
        "of another run": stage.words(b"\1" * 32),
        "of another party": [good[0], *stage.words(made.digest)[:1]],
    }[words]
    stage.coordinator.words = lambda digest: offered
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
        stage.coordinator.ask(question(made, 0, (POINT,)))
        assert "before both aggregators admitted the run" in left(stage)
    assert not ledger(stage).runs
    assert not stage.a.pieces


def test_a_run_that_no_longer_fits_when_its_first_round_is_asked_is_left_uncharged(stage: Stage) -> None:
    (stage.node / "policy.toml").write_text(PARTY_POLICY.replace("epsilon_total = 4.0", "epsilon_total = 2.0"))
    first, second = manifest(**EVERYONE), manifest(**EVERYONE, run="heart-2")
    stage.offer(first)
    stage.offer(second)
    with Running(stage):
        joined(stage, first)
        joined(stage, second)
        stage.coordinator.only = first.digest
        stage.coordinator.ask(question(first, 0, (POINT,)))
        wait_for(lambda: ledger(stage).runs)
        stage.coordinator.only = second.digest
        stage.coordinator.ask(question(second, 0, (POINT,)))
        assert "does not fit what is left of this party's budget" in left(stage)
    held = ledger(stage)
    assert len(held.runs) == 1
    assert held.populations["patients"].spent.epsilon <= 2.0


def test_an_answer_that_nobody_opened_is_given_back(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        assert ledger(stage).populations["patients"].spent.epsilon > 1
        stage.finish(stage.ends(made, 0))
        wait_for(lambda: ledger(stage).runs["heart-1"].ended)
    assert ledger(stage).populations["patients"].spent.epsilon == 0


def test_a_crash_between_the_ledgers_end_and_the_outboxs_is_made_good(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    with closing(ledger(stage)) as book:
        settle(book, made, stage.ends(made, 1), stage.identities[SOUTH].pins)
    stage.finish(stage.ends(made, 1))
    with Running(stage):
        wait_for(lambda: state(stage) == "settled")


def test_a_part_of_a_run_does_not_come_back_under_the_basic_rule(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        before = ledger(stage).populations["patients"].spent
        stage.finish(stage.ends(made, 1))
        wait_for(lambda: ledger(stage).runs["heart-1"].ended)
    assert ledger(stage).populations["patients"].spent == before


def test_other_records_under_a_charged_run_are_not_answered_from(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    rng = np.random.default_rng(99)
    rows = [f"{a:.1f},{p:.0f},{s}" for a, p, s in zip(
        rng.uniform(20, 90, 300), rng.uniform(30, 220, 300), rng.integers(0, 2, 300), strict=True
    )]  # fmt: skip
    kept = (stage.node / "records.csv").read_text()
    (stage.node / "records.csv").write_text("age,pulse,sick\n" + "\n".join(rows) + "\n")
    stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
    with Running(stage):  # exchanged without a word: it waits, and nothing is heard
        wait_for(lambda: state(stage) == "waiting")
    assert not [join for join in stage.coordinator.joins if not join.accepted]
    stage.seal()
    with Running(stage):
        assert "takes no further part" in left(stage)
        wait_for(lambda: state(stage) == "left")
    assert sorted(stage.a.payloads) == [0]
    (stage.node / "records.csv").write_text(kept)  # for good: not even the right ones, then
    stage.seal()
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        assert sorted(ledger(stage).runs["heart-1"].recorded) == [0]
    assert sorted(stage.a.payloads) == [0]
    # What it was charged comes back by the aggregators' words, though the party has left.
    stage.finish(stage.ends(made, 0))
    done = CliRunner().invoke(app, ["settle", str(stage.node), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.splitlines()[-1])
    assert (found["runs"], found["budget"]["epsilon_spent"]) == ([{"run": "heart-1", "settled": True, "reason": ""}], 0)


def test_a_run_whose_end_is_not_proved_is_named_and_settled_later(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.coordinator.say(State(state=State.STATE_ENDED, ends=stage.ends(made, 0, (SOUTH,)), outcome="failed"))
        wait_for(lambda: state(stage) == "ended")
    done = CliRunner().invoke(app, ["settle", str(stage.node), "heart-1"])
    assert done.exit_code == 1
    assert "stays charged: the end of run heart-1 needs the word of both" in done.output
    found = {each.check: each for each in examine(stage.node)}["memory"]
    assert (found.state, "party settle" in found.fix) == (WARNING, True)
    stage.finish(stage.ends(made, 0))
    with Running(stage):
        wait_for(lambda: ledger(stage).runs["heart-1"].ended)
    assert CliRunner().invoke(app, ["settle", str(stage.node)]).output.startswith("no run is open")


def files(stage: Stage, pattern: str) -> list[Path]:
    return [path for path in (stage.node / "state").glob(pattern) if path.is_file()]


@pytest.mark.parametrize("gone", ["ledger.sqlite*", "ledger.sqlite", "ledger.sqlite.head"])
def test_a_lost_ledger_beside_what_was_answered_is_no_new_ledger(stage: Stage, gone: str) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    for path in files(stage, gone):
        path.unlink()
    with pytest.raises(LedgerCorruptError):
        Running(stage)
    done = CliRunner().invoke(
        app, ["approve", str(stage.node), "heart-1", "--digest", made.digest.hex(), "--by", "Ada"]
    )
    assert done.exit_code != 0
    if gone == "ledger.sqlite*":
        assert {each.check: each for each in examine(stage.node)}["memory"].state == FAILED


def test_a_name_and_a_mechanism_are_no_charge_for_another_manifest(stage: Stage) -> None:
    """Where the admissions are lost, only the ledger knows the name: what was charged was another run's."""
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    for path in files(stage, "admissions.sqlite*"):
        path.unlink()
    again = manifest(**{**EVERYONE, "rounds.deadline_seconds": 20.0})
    assert again.mechanism.digest == made.mechanism.digest
    stage.coordinator.manifests = [again.canonical]
    with Running(stage):
        wait_for(lambda: again.digest in {each.manifest_digest for each in stage.coordinator.joins})
        assert "charged for another manifest" in left(stage)
        assert not [e for e in stage.coordinator.joins if e.accepted and e.manifest_digest == again.digest]


def test_a_seal_of_another_ledger_is_none(stage: Stage) -> None:
    """Whose rows these are is said under a salt that is gone: under the new one nobody would be recognised."""
    for path in files(stage, "ledger.sqlite*"):
        path.unlink()
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        wait_for(lambda: state(stage) == "waiting")
        assert not stage.coordinator.joins
        stage.seal()
        joined(stage, made)


@pytest.mark.parametrize("beside", ["outbox.sqlite*", "admissions.sqlite*", "trail.jsonl"])
def test_any_one_of_the_other_files_tells_that_there_was_a_ledger(stage: Stage, beside: str) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    kept = files(stage, beside)
    for path in files(stage, "*"):
        if path not in kept:
            path.unlink()
    with pytest.raises(LedgerCorruptError, match=r"is missing, and .* tell of runs: put back"):
        Running(stage)


def test_an_outbox_that_is_older_than_the_trail_or_the_ledger_is_found(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    copies = {path: path.read_bytes() for path in files(stage, "outbox.sqlite*")}
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        stage.opened(1)
        wait_for(lambda: stage.coordinator.requests[-1].after_round == 1)
    newest = {path: path.read_bytes() for path in files(stage, "outbox.sqlite*")}
    for path in newest:
        path.unlink()
    for path, data in copies.items():
        path.write_bytes(data)
    with pytest.raises(OutboxError, match="round 1 of run heart-1"):
        Running(stage)
    for path in copies:
        path.unlink(missing_ok=True)
    for path, data in newest.items():
        path.write_bytes(data)
    Running(stage).__exit__()


def test_a_first_question_that_is_refused_costs_nothing(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
        stage.coordinator.ask(question(made, 0, (POINT, POINT)))
        assert "evaluates at 1 points" in left(stage)
    assert not ledger(stage).runs


def test_a_refusal_names_what_may_cost_too_much_if_a_server_lies() -> None:
    """And what to change, which a smaller delta is not."""
    said = str(exceeded(BudgetExceededError("", (LYING,))))
    assert "privacy.epsilon_if_a_server_lies" in said
    assert "own noise" in said
    assert "delta" not in said


def test_a_second_manifest_under_a_runs_name_keeps_no_party_from_starting(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.offer(manifest(**{**EVERYONE, "mechanism.noise_multiplier": 40.0}))
        assert "admitted with another manifest" in left(stage)
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        stage.opened(1)


def test_who_was_put_back_says_so_before_it_judges_what_servers_state(stage: Stage, tmp_path: Path) -> None:
    """They state an upload that it has forgotten: it is not they who are at fault."""
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
    copy = tmp_path / "last week"
    shutil.copytree(stage.node / "state", copy, ignore=lambda *_: {"party.lock"})
    with Running(stage):
        charged(stage, made)
    shutil.rmtree(stage.node / "state")
    shutil.copytree(copy, stage.node / "state")
    (stage.node / "state").chmod(0o700)
    stage.a.recalled = [aggregator_pb2.RecalledRun(manifest_digest=made.digest, run="heart-1", last_round=0)]
    with Running(stage):
        stage.coordinator.ask(question(made, 1, (POINT, np.zeros(3))))
        assert "takes no part" in left(stage)
    assert '"statement.refused"' not in (stage.node / "state" / "trail.jsonl").read_text()


def test_a_whole_folder_that_is_put_back_is_found_by_what_one_server_remembers(stage: Stage, tmp_path: Path) -> None:
    first, second = manifest(**EVERYONE), manifest(**EVERYONE, run="heart-2")
    stage.offer(first)
    with Running(stage):
        joined(stage, first)
    copy = tmp_path / "last week"
    shutil.copytree(stage.node / "state", copy, ignore=lambda *_: {"party.lock"})
    with Running(stage):
        charged(stage, first)
        stage.finish(stage.ends(first, 1))
        wait_for(lambda: ledger(stage).runs["heart-1"].ended)
    shutil.rmtree(stage.node / "state")
    shutil.copytree(copy, stage.node / "state")
    (stage.node / "state").chmod(0o700)
    stage.b.recalled = [aggregator_pb2.RecalledRun(manifest_digest=first.digest, run="heart-1", last_round=0)]
    stage.coordinator.manifests, stage.coordinator.current = [second.canonical], None
    uploads = len(stage.a.pieces)
    with Running(stage):
        joined(stage, second)
        stage.coordinator.only = second.digest
        stage.coordinator.ask(question(second, 0, (POINT,)))
        assert "takes no part" in left(stage)
    assert len(stage.a.pieces) == uploads
    assert not ledger(stage).runs


def test_budgets_show_delta_and_what_is_released(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    path = stage.node / "state" / "ledger.sqlite"
    shown = CliRunner().invoke(ledger_app, ["show", str(path)]).output
    assert f"1 of {made.releases} released, open, epsilon" in shown
    assert "delta 1e-05 of 0.0001 spent" in shown
    assert "delta 1e-05 of 0.0001 spent" in CliRunner().invoke(app, ["status", str(stage.node)]).output
    budget = {each.check: each for each in examine(stage.node)}["budget"]
    assert (budget.state, "delta" in budget.problem) == (OK, True)


def test_a_refusal_names_delta_where_delta_is_what_is_left_too_little_of(stage: Stage) -> None:
    text = (stage.node / "node.toml").read_text()
    (stage.node / "node.toml").write_text(text.replace("delta = 1e-4", "delta = 1.05e-5"))
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.offer(manifest(**{**EVERYONE, "run": "heart-2", "mechanism.noise_multiplier": 40.0}))
        assert left(stage).startswith("privacy.delta: the run does not fit")
    budget = {each.check: each for each in examine(stage.node)}["budget"]
    assert (budget.state, "delta is nearly used up" in budget.fix) == (WARNING, True)


def test_files_of_the_state_are_their_owners_alone(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        assert not [path.name for path in files(stage, "*") if path.stat().st_mode & 0o077]


def test_a_run_that_a_server_could_make_too_dear_is_refused_with_what_would_help() -> None:
    error = exceeded(BudgetExceededError("reached", ("epsilon_if_a_server_lies",)))
    assert "privacy.epsilon_if_a_server_lies" in str(error)
    assert "own noise" in error.hint
    assert "delta" not in error.hint
