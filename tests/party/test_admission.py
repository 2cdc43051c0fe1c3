"""What a hostile coordinator, or a swapped server, gets from a party: a typed refusal, and nothing on the ledger."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.federation.names import NodeName, Role
from parley.federation.people import Legal
from parley.node.authority import ThrowAwayAuthority
from parley.node.endings import sign_end
from parley.party.client import PartyClient
from parley.party.outbox import Outbox
from parley.party.process import party_node, settings_of
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.filters import Cap, Policy
from parley.privacy.mechanism import ROW
from parley.v1 import common_pb2, coordinator_pb2
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.party_process import EVERYONE, Running, charged, ledger, verified
from tests.support.stage import NORTH, PARTY, SOUTH, Stage, State, question
from tests.support.until import until

POINT, OTHER = np.array([0.1, -0.2, 0.3]), np.array([0.3, 0.2, -0.1])
FIT = coordinator_pb2.LocalFit(method="descent", steps=2, step=0.1, strength=0.0, reach=2.0)
pytestmark = pytest.mark.usefixtures("verified_in_process")


def states(stage: Stage) -> dict[str, tuple[str, str]]:
    outbox = Outbox(stage.node / "state" / "outbox.sqlite")
    found = {held.run: (held.state, held.reason) for held in outbox.runs()}
    outbox.close()
    return found


def refusal(stage: Stage, count: int = 1) -> str:
    """What the coordinator is told when the party leaves."""
    until(lambda: sum(not join.accepted for join in stage.coordinator.joins) >= count)
    return str([join.reason for join in stage.coordinator.joins if not join.accepted][-1])


def swapped(asked: Any) -> Any:
    asked.points[0].data = np.asarray(OTHER, "<f8").tobytes()
    return asked


QUESTIONS: dict[str, tuple[Any, str]] = {
    "same round, other parameters": (lambda m: question(m, 0, (OTHER,)), "asked again with another question"),
    "same round, other scale": (lambda m: question(m, 0, (POINT,), scale=2.0), "asked again with another question"),
    "same round, the digest kept": (
        lambda m: question(m, 0, (OTHER,), query_digest=question(m, 0, (POINT,)).query_digest),
        "not that of its question",
    ),
    "a point too short": (lambda m: question(m, 1, (POINT[:2], POINT)), "has 16 bytes"),
    "a point too long": (lambda m: question(m, 1, (np.zeros(4), POINT)), "has 32 bytes"),
    "a point with nan": (lambda m: question(m, 1, (np.array([np.nan, 0, 0]), POINT)), "not finite"),
    "a point with infinity": (lambda m: question(m, 1, (np.array([0, np.inf, 0]), POINT)), "not finite"),
    "a point that is not its digest's": (lambda m: swapped(question(m, 1, (np.ones(3), POINT))), "not what its digest"),
    "too few points": (lambda m: question(m, 1, (OTHER,)), "evaluates at 2 points"),
    "three points": (lambda m: question(m, 1, (OTHER, POINT, POINT)), "has 3 points"),
    "no point": (lambda m: question(m, 1, ()), "has 0 points"),
    "another digest": (lambda m: question(m, 1, (OTHER, POINT), query_digest=bytes(32)), "not that of its question"),
    "the digest of another run": (
        lambda m: question(
            m,
            1,
            (OTHER, POINT),
            query_digest=question(manifest(**EVERYONE, run="heart-2"), 1, (OTHER, POINT)).query_digest,
        ),
        "not that of its question",
    ),
    "an unknown kind": (lambda m: question(m, 1, (OTHER, POINT), kind="records"), "of kind 'records'"),
    "losses under two clip norms": (
        lambda m: question(m, 1, (OTHER, POINT), kind="losses", length=1),
        "it may ask gradient",
    ),
    "scale zero": (lambda m: question(m, 1, (OTHER, POINT), scale=0.0), "the scale 0.0"),
    "scale negative": (lambda m: question(m, 1, (OTHER, POINT), scale=-1.0), "the scale -1.0"),
    "scale infinite": (lambda m: question(m, 1, (OTHER, POINT), scale=float("inf")), "the scale inf"),
    "scale nan": (lambda m: question(m, 1, (OTHER, POINT), scale=float("nan")), "the scale nan"),
    "a local solution": (
        lambda m: question(m, 1, (OTHER,), kind="solution", local=FIT),
        "it may ask gradient",
    ),
    "a fit beside a gradient": (lambda m: question(m, 1, (OTHER, POINT), local=FIT), "solutions only"),
    "another length": (lambda m: question(m, 1, (OTHER, POINT), length=2), "asks for 2 numbers"),
    "a round beyond the last": (lambda m: question(m, 40, (OTHER, POINT)), "of a run of 40 rounds"),
}


@pytest.mark.parametrize("attack", QUESTIONS)
def test_a_question_beyond_the_manifest_ends_this_partys_part_and_records_nothing(stage: Stage, attack: str) -> None:
    build, reason = QUESTIONS[attack]
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        stage.coordinator.ask(question(made, 0, (POINT,)))
        stage.opened(0)
        until(lambda: stage.coordinator.requests[-1].after_round == 0)
        uploads = len(stage.a.pieces)
        asked = build(made)
        stage.coordinator.repeat = asked.index == 0
        stage.coordinator.ask(asked)
        assert reason in refusal(stage)
        assert states(stage)["heart-1"][0] == "left"
        assert sorted(ledger(stage).runs["heart-1"].recorded) == [0]
        assert len(stage.a.pieces) == uploads
    # Another process does not come back to it either.
    stage.coordinator.ask(question(made, 1, (OTHER, POINT)))
    with Running(stage):
        assert len(stage.a.pieces) == uploads


def test_a_lower_round_and_a_replay_are_refused(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        for index, asked in enumerate([question(made, 0, (POINT,)), question(made, 1, (OTHER, POINT))]):
            stage.coordinator.ask(asked)
            stage.opened(index)
        stage.coordinator.ask(question(made, 0, (POINT,)))
        assert "round 0 is asked after round 1 was answered" in refusal(stage)
        assert sorted(ledger(stage).runs["heart-1"].recorded) == [0, 1]


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "sigma lowered": ({**EVERYONE, "mechanism.noise_multiplier": 5.0}, "privacy.epsilon"),
    "minimum of parties below the policy's": ({**EVERYONE, "rounds.minimum_parties": 2}, "rounds.minimum_parties"),
    "an aggregator that is not known": ({**EVERYONE, "aggregators.1.name": "west"}, "'west' is unknown to this party"),
    "aggregators swapped": ({**EVERYONE, "aggregators.0.name": "south", "aggregators.1.name": "north"}, "policy knows"),
    "epsilon above the policy's": ({**EVERYONE, "privacy.epsilon": 3.0}, "policy admits 2 per run"),
    "another coordinator": ({**EVERYONE, "coordinator.name": "other"}, "'lead' proposes the run"),
    "this party is not in it": ({**EVERYONE, "parties.0.name": "hospital-x"}, "hospital-a"),
    "a last day that is over": ({**EVERYONE, "legal": {"expires": "2020-01-01"}}, "legal.expires: was 2020-01-01"),
    "another federation": ({**EVERYONE, "federation": "other"}, "federation"),
    "a model of another size": ({**EVERYONE, "model.dimension": 4}, "model.dimension"),
    "a model that is not installed": ({**EVERYONE, "model.kind": "wormhole"}, "wormhole"),
    "other numbers of units": (
        {**EVERYONE, "parties.0.sampler": {"kind": "wor", "units": 299, "batch": 299}},
        "count 299 units of hospital-a and it has 300",
    ),
}


@pytest.mark.parametrize("attack", MANIFESTS)
def test_a_manifest_beyond_policy_budget_or_records_is_not_admitted_and_charges_nothing(
    stage: Stage,
    attack: str,
) -> None:
    changes, reason = MANIFESTS[attack]
    (stage.node / "policy.toml").write_text(PARTY_POLICY.replace("minimum_parties = 2", "minimum_parties = 3")
        if "minimum" in attack else PARTY_POLICY)  # fmt: skip
    stage.offer(manifest(**changes))
    with Running(stage):
        found = until(lambda: [each for each in states(stage).values() if each[0] in ("refused", "waiting")])
        assert reason in found[0][1]
        if found[0][0] == "refused":
            assert reason in refusal(stage)
        assert not any(join.accepted for join in stage.coordinator.joins)
        assert not ledger(stage).runs


def test_a_run_is_not_answered_any_more_once_its_last_day_is_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = manifest(**EVERYONE, legal={"expires": "2999-12-31"})
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        uploads = len(stage.a.pieces)
        monkeypatch.setattr(Legal, "expired", lambda self, now=None: True)
        stage.coordinator.ask(question(made, 1, (OTHER, POINT)))
        assert "the last day of run heart-1 is over" in refusal(stage)
        assert states(stage)["heart-1"][0] == "left"
        assert sorted(ledger(stage).runs["heart-1"].recorded) == [0]
        assert len(stage.a.pieces) == uploads


def test_what_a_policy_requires_and_a_manifest_does_not_say_waits_for_a_person(stage: Stage) -> None:
    demanding = PARTY_POLICY.replace("[aggregators]", 'require = ["purpose", "contact"]\n[aggregators]')
    (stage.node / "policy.toml").write_text(demanding)
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        reason = until(lambda: [why for state, why in states(stage).values() if state == "waiting"])[0]
        assert "legal.purpose: is not said and the policy requires purpose" in reason
        assert "parties[0].contact: is not said" in reason
        assert not ledger(stage).runs


def test_without_a_policy_nothing_is_admitted(stage: Stage) -> None:
    (stage.node / "policy.toml").unlink()
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        until(lambda: states(stage).get("heart-1", ("", ""))[0] == "waiting")
        assert not ledger(stage).runs
        assert not stage.coordinator.joins


@pytest.mark.slow
def test_a_policy_that_is_written_while_a_run_waits_is_read(stage: Stage) -> None:
    (stage.node / "policy.toml").unlink()
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        until(lambda: states(stage).get("heart-1", ("", ""))[0] == "waiting")
        (stage.node / "policy.toml").write_text(PARTY_POLICY.replace("minimum_parties = 2", "minimum_parties = 3"))
        until(lambda: "minimum_parties" in states(stage)["heart-1"][1])
        assert states(stage)["heart-1"][0] == "waiting"
        (stage.node / "policy.toml").write_text(PARTY_POLICY)
        until(lambda: stage.coordinator.joins)
        assert stage.coordinator.joins[0].accepted
        assert states(stage)["heart-1"][0] == "joined"


def test_aggregators_of_one_legal_entity_by_the_policy_are_refused(stage: Stage) -> None:
    (stage.node / "policy.toml").write_text(PARTY_POLICY.replace("South Foundation", "North Trust"))
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        assert "belong to one legal entity" in refusal(stage)


def test_a_run_beyond_the_budget_of_the_ledger_is_refused(stage: Stage) -> None:
    stage.write_node(epsilon=0.5)
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        assert "does not fit what is left of this party's budget" in refusal(stage)
        assert not ledger(stage).runs


@pytest.mark.parametrize("lying", [None, 2.5])
def test_where_a_caught_server_has_used_the_budget_up_nothing_more_is_admitted(
    stage: Stage, lying: float | None
) -> None:
    """Also where ε, as it was charged at first, would leave room."""
    made = manifest(**EVERYONE)
    with Running(stage):
        pass  # the ledger is there
    book, (_, charge) = ledger(stage), verified(made.canonical, PARTY.name, Policy())
    book.register("patients", ROW, Cap(4.0, 1e-4))
    cost = replace(charge.cost, epsilon_if_a_server_lies=lying, delta_if_a_server_lies=1e-5)
    for run in ("earlier-1", "earlier-2"):
        book.reserve(run, "patients", replace(charge, cost=cost))
    book.charge_for_cheating(["earlier-1", "earlier-2"], "3f" * 32)
    book.close()
    stage.offer(made)
    with Running(stage):
        said = refusal(stage)
        assert "does not fit what is left of this party's budget" in said or "exceeds the" in said
        assert set(ledger(stage).runs) == {"earlier-1", "earlier-2"}


def test_a_second_manifest_under_one_runs_name_is_refused(stage: Stage) -> None:
    stage.offer(manifest(**EVERYONE))
    with Running(stage):
        charged(stage, manifest(**EVERYONE))
        stage.offer(manifest(**EVERYONE, **{"rounds.deadline_seconds": 29.0}))
        assert "was admitted with another manifest" in refusal(stage)
        assert len(ledger(stage).runs) == 1


def test_bytes_that_are_no_manifest_are_declined(stage: Stage) -> None:
    stage.coordinator.manifests.append(manifest().canonical.replace(b'"gamma":0.5', b'"gamma":0.50'))
    with Running(stage):
        assert "not in canonical form" in refusal(stage)


def forged(stage: Stage, made: Any, how: str) -> list[Any]:
    good = stage.ends(made, 0)
    if how == "one only":
        return good[:1] * 2
    if how == "disagreeing":
        return [*stage.ends(made, 0, (NORTH,)), *stage.ends(made, 1, (SOUTH,))]
    if how == "altered":
        return [good[0], common_pb2.SignedEnd.FromString(stage.ends(made, 1)[1].SerializeToString()[:-2] + b"xx")]
    if how == "of another authority":
        other = ThrowAwayAuthority("cardio")
        return [sign_end(other.issue_as(name), made.digest, 0) for name in (NORTH, SOUTH)]
    if how == "by twins of this authority":
        return [sign_end(stage.authority.twin(name), made.digest, 0) for name in (NORTH, SOUTH)]
    if how == "of another run":
        return stage.ends(manifest(**EVERYONE, run="heart-2"), 0)
    return [good[0], sign_end(stage.authority.issue_as(NodeName("cardio", Role.aggregator, "west")), made.digest, 0)]


@pytest.mark.parametrize(
    "how",
    [
        "one only",
        "disagreeing",
        "altered",
        "of another authority",
        "by twins of this authority",
        "of another run",
        "of another node",
    ],
)
def test_an_end_that_is_not_proved_gives_nothing_back(stage: Stage, how: str) -> None:
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.coordinator.say(State(state=State.STATE_ENDED, ends=forged(stage, made, how), outcome="stopped"))
        until(lambda: states(stage)["heart-1"][0] == "ended")
        book = ledger(stage)
        assert not book.runs["heart-1"].ended
        assert book.populations["patients"].spent.epsilon > 1
    # The true word, later and to another process, is still taken.
    stage.finish(stage.ends(made, 0))
    with Running(stage):
        until(lambda: states(stage)["heart-1"][0] == "settled")
    assert ledger(stage).populations["patients"].spent.epsilon == 0


def test_no_two_processes_of_one_party(stage: Stage, tmp_path: Path) -> None:
    with Running(stage), pytest.raises(Exception, match="another process of this party"):
        Running(stage)


def test_no_words_of_a_coordinator_make_another_population_of_the_same_people(stage: Stage) -> None:
    """A renamed population is no fresh budget, whatever study it is renamed for."""
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    stage.write_node(population="patients of study two")
    with pytest.raises(
        LedgerRefusedError, match="keeps the budget of patients, and patients of study two would be a fresh"
    ):
        PartyClient(settings_of(party_node(stage.node)))
    with pytest.raises(LedgerRefusedError, match="those of population patients"):
        stage.seal()
    declare = ["populations", str(stage.node), "--apart", "staff", "--by", "Ada Osei", "--json"]
    done = subprocess.run([sys.executable, "-m", "parley.cli.main", "party", *declare], capture_output=True, check=True)
    assert json.loads(done.stdout)["declared_apart"] == ["staff"]
    assert b'"population":"staff"' in (stage.node / "state" / "trail.jsonl").read_bytes()
    stage.write_node(population="staff")
    with pytest.raises(LedgerRefusedError, match="those of population patients"):  # nor does a declaration make it one
        stage.seal()
    assert list(ledger(stage).populations) == ["patients"]


SHAPES = ("empty lists", "9,900 parties of other sizes", "columns")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.slow
def test_a_mebibyte_of_manifest_costs_two_seconds_of_a_core_and_200_mb_at_most(shape: str) -> None:
    command = [sys.executable, str(Path(__file__).parents[2] / "benchmarks" / "hostile_manifests.py"), shape]
    done = subprocess.run(command, capture_output=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seconds"] <= 2
    assert found["mb"] <= 200
