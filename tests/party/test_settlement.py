"""What a party has spent, over TLS: exchanged records, lost and older files, charges that come late or come back."""

from contextlib import closing

import numpy as np
import pytest

from parley.cli.commands.doctor import examine
from parley.node.doctor import WARNING
from parley.party.errors import exceeded
from parley.party.settlement import settle
from parley.privacy.errors import BudgetExceededError
from parley.privacy.filters import LYING
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.memories import POINT, files, joined, left, state
from tests.support.party_process import EVERYONE, Running, charged, gate_of, ledger
from tests.support.stage import SOUTH, Stage, State, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_nothing_is_charged_before_a_round_is_asked_and_a_run_that_ends_before_costs_nothing(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
        until(lambda: stage.coordinator.requests)
        assert not ledger(stage).runs
        stage.coordinator.say(State(state=State.STATE_ENDED, outcome="failed"))  # nobody has signed anything
        until(lambda: state(stage) == "settled")
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
        until(lambda: ledger(stage).runs)
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
        until(lambda: ledger(stage).runs["heart-1"].ended)
    assert ledger(stage).populations["patients"].spent.epsilon == 0


def test_a_crash_between_the_ledgers_end_and_the_outboxs_is_made_good(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    with closing(gate_of(stage)) as gate:
        settle(gate, made, stage.ends(made, 1), stage.identities[SOUTH].pins)
    stage.finish(stage.ends(made, 1))
    with Running(stage):
        until(lambda: state(stage) == "settled")


def test_a_part_of_a_run_does_not_come_back_under_the_basic_rule(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        before = ledger(stage).populations["patients"].spent
        stage.finish(stage.ends(made, 1))
        until(lambda: ledger(stage).runs["heart-1"].ended)
    assert ledger(stage).populations["patients"].spent == before


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
        until(lambda: again.digest in {each.manifest_digest for each in stage.coordinator.joins})
        assert "charged for another manifest" in left(stage)
        assert not [e for e in stage.coordinator.joins if e.accepted and e.manifest_digest == again.digest]


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


def test_a_refusal_names_delta_where_delta_is_what_is_left_too_little_of(stage: Stage) -> None:
    stage.write_node(delta=1.05e-5)
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
