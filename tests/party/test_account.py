"""A party that was put back to an old state: nothing is answered before every server has accounted for it."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.party.account import AccountError, Taken, known_servers, leave_open_runs, now, until_taken
from parley.party.admission import Gate
from parley.party.outbox import LEFT, REFUSED
from parley.party.review import policy_of
from parley.party.settlement import settle, settle_open, still_open
from parley.party.wire import Wire
from parley.privacy.errors import BudgetExceededError, LedgerRefusedError
from parley.privacy.filters import Cap
from tests.support.documents import manifest
from tests.support.memories import POINT, joined, left, state
from tests.support.party_process import EVERYONE, Running, charged, gate_of, ledger
from tests.support.reviewers import reviewed_policy
from tests.support.stage import LEAD, NORTH, SOUTH, Stage, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")
MADE = 1_700_000_000


@pytest.fixture
def gate(stage: Stage) -> Any:
    with closing(gate_of(stage)) as made:
        yield made


def put_back(gate: Gate, made: int | None = MADE) -> None:
    gate.ledger.put_back(made, "ab" * 16)
    gate.ledger.verify()


def taken(stage: Stage, gate: Gate, give_up_by: str = "") -> Taken:
    targets = {NodeName("cardio", Role.aggregator, name): at for name, at in gate.settings.aggregators.items()}
    with closing(Wire(gate.settings.identity, targets)) as wire:
        return now(gate, wire, give_up_by)


def run(name: str = "heart-1", **changes: Any) -> Manifest:
    return manifest(**{**EVERYONE, **changes}, run=name)


@pytest.mark.slow
def test_what_one_server_hides_is_charged_by_what_the_other_one_tells(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    stage.a.accounted = [(run("told-by-a"), 3, True)]
    stage.b.accounted = [(run("told-by-b"), 1, True), (run("both"), 2, False)]
    stage.a.accounted.append((run("both"), 2, False))
    found = taken(stage, gate)
    assert sorted(found.runs) == ["both", "told-by-a", "told-by-b"]
    book = ledger(stage)
    spent = book.populations["patients"].spent
    assert spent.epsilon == pytest.approx(sum(each.charge.cost.epsilon for each in book.runs.values()))
    assert len(book.runs) == 3
    assert all(each.accounted and not each.ended for each in book.runs.values())
    assert not book.waits_for_account


def test_a_larger_cap_that_nobody_has_signed_is_not_registered(stage: Stage, gate: Gate) -> None:
    reviewed = gate.settings.cap
    gate.settings.policy.write_text(reviewed_policy())
    policy_of(gate.settings)
    edited = replace(gate.settings, cap=Cap(1000.0, 0.1))  # [budget] of node.toml, by whoever can write it
    with closing(Gate(edited, gate.node, gate.shelf)) as again:
        put_back(again)
        stage.a.accounted = stage.b.accounted = [(run("told"), 1, True)]
        assert taken(stage, again).runs == ("told",)
        assert again.ledger.populations["patients"].cap == reviewed


def test_a_run_that_ended_without_this_party_costs_nothing_and_is_never_answered(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    made = run()
    stage.a.accounted = stage.b.accounted = [(made, 0, True)]
    assert taken(stage, gate).runs == ()
    assert not ledger(stage).runs
    with pytest.raises(Exception, match="ended before it was admitted"):
        gate.record.put(made, "policy", "policy")


def test_a_run_that_either_server_has_not_ended_may_hold_an_answer_of_this_party(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    stage.a.accounted, stage.b.accounted = [(run(), 0, True)], [(run(), 0, False)]
    assert taken(stage, gate).runs == ("heart-1",)


@pytest.mark.parametrize("silent", [NORTH, SOUTH])
def test_a_servers_silence_is_not_talked_away(stage: Stage, gate: Gate, silent: NodeName) -> None:
    put_back(gate)
    server = stage.a if silent == NORTH else stage.b
    server.silent = True
    with pytest.raises(AccountError, match=silent.name):
        taken(stage, gate)
    assert ledger(stage).waits_for_account
    with pytest.raises(LedgerRefusedError, match="restore --account"):
        charge = charge_of(stage)
        gate.ledger.register("patients", charge.unit, gate.settings.cap)
        gate.ledger.reserve("heart-9", "patients", charge)
    found = taken(stage, gate, "Dr. Ada Osei")
    assert found.given_up == ("patients",)
    spent, cap = ledger(stage).populations["patients"].spent, gate.settings.cap
    assert (spent.epsilon, spent.delta, spent.epsilon_if_a_server_lies) == (cap.epsilon, cap.delta, None)
    with pytest.raises(BudgetExceededError):
        gate.ledger.reserve("heart-9", "patients", charge)


def charge_of(stage: Stage) -> Any:
    from parley.privacy.filters import Policy
    from tests.support.party_process import verified

    return verified(run("heart-9").canonical, "hospital-a", Policy())[1]


def wrong_caller(account: Any) -> Any:
    account.caller = "parley://cardio/party/hospital-b"
    return account


def wrong_nonce(account: Any) -> Any:
    account.nonce = bytes(32)
    return account


def other_server(account: Any) -> Any:
    account.aggregator = SOUTH.uri
    return account


def a_run_less(account: Any) -> Any:
    del account.runs[:]
    return account


def a_name_with_a_line(account: Any) -> Any:
    account.runs[0].run = "heart\n1"
    return account


def too_many(account: Any) -> Any:
    account.total = 1 << 31
    return account


def with_a_newer_field(account: Any) -> Any:
    return type(account).FromString(account.SerializeToString() + b"\xfa\x3f\x03abc")


SPOILT = [wrong_caller, wrong_nonce, other_server, a_run_less, a_name_with_a_line, too_many, with_a_newer_field]


@pytest.mark.parametrize("spoil", SPOILT)
def test_only_a_servers_own_whole_word_for_this_call_counts(
    stage: Stage, gate: Gate, spoil: Callable[[Any], Any]
) -> None:
    put_back(gate)
    stage.a.accounted = stage.b.accounted = [(run(), 1, True)]
    stage.a.spoil = spoil
    with pytest.raises(AccountError, match="north"):
        taken(stage, gate)
    assert ledger(stage).waits_for_account


def test_another_nodes_signature_is_no_account(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    stage.a.identity = replace(stage.identities[SOUTH])
    with pytest.raises(AccountError, match="not signed by the key"):
        taken(stage, gate)


def test_a_server_that_was_restored_since_this_partys_backup_has_forgotten_too(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    stage.b.restored = [(MADE - 9000, MADE - 7200)]
    stage.b.accounted = stage.a.accounted = []
    assert taken(stage, gate).runs == ()
    gate.ledger.put_back(MADE, "cd" * 16)
    stage.b.restored.append((MADE, MADE + 3600))
    with pytest.raises(AccountError, match=r"has forgotten 1\.0 hours"):
        taken(stage, gate)


def test_an_account_has_any_number_of_parts(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    ended = [(run(f"heart-{index}"), 0, True) for index in range(150)]
    stage.a.accounted = [*ended, (run("last"), 1, True)]
    assert taken(stage, gate).runs == ("last",)


def test_one_name_under_two_manifests_is_charged_twice(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    one, other = run(), manifest(**EVERYONE, **{"rounds.deadline_seconds": 31.0})
    stage.a.accounted, stage.b.accounted = [(one, 1, True)], [(other, 1, True)]
    assert len(taken(stage, gate).runs) == 2
    assert len(ledger(stage).runs) == 2


def test_a_run_whose_cost_cannot_be_computed_is_not_passed_over(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    stranger = manifest(**EVERYONE, **{"parties.0.name": "hospital-z"})
    stage.a.accounted = [(stranger, 1, True), (run("known"), 1, True), (run("over"), 0, True)]
    before = len(gate.outbox.runs())
    for _ in range(2):
        with pytest.raises(AccountError, match="heart-1 cost cannot be computed"):
            taken(stage, gate)
    assert len(gate.outbox.runs()) == before  # however often it is asked
    gate.record.put(run("over"), "policy", "policy")  # nobody has noted meanwhile that it never is
    assert taken(stage, gate, "Dr. Ada Osei").given_up == ("patients",)


def test_a_run_of_a_data_set_that_is_not_known_is_charged_to_every_population(stage: Stage, gate: Gate) -> None:
    gate.ledger.register("others", charge_of(stage).unit, gate.settings.cap)
    put_back(gate)
    gate.ledger.declare_apart("patients", "Dr. Ada Osei")
    stage.a.accounted = [(manifest(**EVERYONE, **{"parties.0.data_set": "cardiology"}), 1, True)]
    assert len(taken(stage, gate).runs) == 2
    book = ledger(stage)
    assert {each.population for each in book.runs.values()} == {"patients", "others"}
    assert all(each.spent.epsilon > 1 for each in book.populations.values())


@pytest.mark.slow
def test_a_charge_by_account_stands_against_no_cap(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    stage.a.accounted = [(run(f"heart-{index}"), 1, True) for index in range(4)]
    assert len(taken(stage, gate).runs) == 4
    held = ledger(stage).populations["patients"]
    assert held.spent.epsilon > held.cap.epsilon


def test_a_restored_party_joins_nothing_before_both_servers_have_answered(stage: Stage) -> None:
    with closing(gate_of(stage)) as gate:
        put_back(gate)
    stage.seal()
    made, other = run("lost"), run("later", **{"mechanism.noise_multiplier": 21.0})
    stage.a.accounted = stage.b.accounted = [(made, 2, True)]
    stage.b.silent = True
    stage.offer(other)
    stage.offer(made)
    with Running(stage):
        until(lambda: stage.a.identity)
        threading.Event().wait(0.5)
        assert not stage.coordinator.joins
        assert not ledger(stage).runs
        stage.b.silent = False
        joined(stage, other)
        assert "lost" in ledger(stage).runs
        answers = stage.coordinator.joins
        until(lambda: any(each.manifest_digest == made.digest and not each.accepted for each in answers))


@pytest.mark.slow
def test_a_folder_that_was_put_back_by_hand_is_noticed_and_mended_by_an_account(stage: Stage) -> None:
    """`cp` leaves no mark: the servers remember more than the outbox does."""
    lost = run("lost")
    made = run("later", **{"mechanism.noise_multiplier": 21.0})
    stage.a.recalled = [_recalled(lost)]
    stage.offer(made)
    with Running(stage):
        joined(stage, made)
        stage.coordinator.ask(question(made, 0, (POINT,)))
        assert "newest state" in left(stage)
    stage.a.accounted = stage.b.accounted = [(lost, 2, True)]
    with closing(gate_of(stage)) as gate:
        put_back(gate, None)
        leave_open_runs(gate)
        assert taken(stage, gate).runs == ("lost",)
    stage.seal()
    again = run("again", **{"mechanism.noise_multiplier": 21.0})
    stage.coordinator.manifests, stage.coordinator.joins, stage.coordinator.current = [], [], None
    stage.offer(again)
    with Running(stage):
        joined(stage, again)
        charged(stage, again)
    assert {"lost", "again"} <= ledger(stage).runs.keys()


def _recalled(made: Manifest) -> Any:
    from parley.v1 import aggregator_pb2

    return aggregator_pb2.RecalledRun(manifest_digest=made.digest, run=made.run, last_round=1)


def test_a_run_that_was_open_is_left_and_stays_charged(stage: Stage) -> None:
    made = run()
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    with closing(gate_of(stage)) as gate:
        put_back(gate)
        assert leave_open_runs(gate) == ["heart-1"]
        stage.a.accounted = stage.b.accounted = [(made, 4, False)]
        assert taken(stage, gate).runs == ()
        assert ledger(stage).accounted == {made.digest.hex(): 4}
    stage.coordinator.joins.clear()
    with Running(stage):
        until(lambda: stage.coordinator.requests)
    assert state(stage) == "left"
    assert ledger(stage).populations["patients"].spent == ledger(stage).runs["heart-1"].charge.cost


def test_a_person_may_take_the_account_while_the_process_waits(stage: Stage, gate: Gate) -> None:
    put_back(gate)
    taken(stage, gate)
    targets = {NodeName("cardio", Role.aggregator, name): at for name, at in gate.settings.aggregators.items()}
    with closing(Wire(gate.settings.identity, targets)) as wire:
        assert until_taken(gate, wire, threading.Event(), lambda: None) == Taken((), ())


@pytest.mark.slow
def test_the_ends_of_a_decoy_of_its_name_give_nothing_of_an_accounted_run_back(stage: Stage, gate: Gate) -> None:
    """Both servers are honest: of the decoy nothing was opened, and the coordinator alone has made it up."""
    real, decoy = run("x"), run("x", **{"mechanism.noise_multiplier": 30.0})
    gate.note(decoy, LEFT, "it waited when the backup was made")
    put_back(gate)
    stage.a.accounted = stage.b.accounted = [(real, 39, True)]
    assert taken(stage, gate).runs == ("x",)
    spent = ledger(stage).populations["patients"].spent
    assert not gate.charged(decoy)
    assert not gate.charged(real)
    assert still_open(gate, joined=True) == []
    stage.coordinator.only = decoy.digest
    stage.finish(stage.ends(decoy, 0))
    with closing(Wire(gate.settings.identity, {LEAD: gate.settings.coordinator_address})) as wire:
        found = settle_open(gate, wire, gate.outbox.runs(), threading.Event(), {})
        assert not any(each.settled for each in found)
        for made in (decoy, real):
            with pytest.raises(LedgerRefusedError, match="was not charged here"):
                settle(gate, made, stage.ends(made, 0), wire.identity.pins)
    assert ledger(stage).populations["patients"].spent == spent


def test_an_answer_of_a_decoy_is_not_noted_under_an_accounted_run(stage: Stage, gate: Gate) -> None:
    decoy = run("x", **{"mechanism.noise_multiplier": 30.0})
    gate.record.put(decoy, "policy", "policy")
    put_back(gate)
    leave_open_runs(gate)
    stage.a.accounted = stage.b.accounted = [(run("x"), 39, True)]
    assert taken(stage, gate).runs == ("x",)
    assert not gate.charged(decoy)
    gate.catch_up()


def test_a_second_backup_of_a_party_that_waits_does_not_make_its_state_younger(stage: Stage, gate: Gate) -> None:
    for first in (MADE, None):
        put_back(gate, first)
        gate.ledger.put_back(MADE + 864_000, "cd" * 16)
        gate.ledger.verify()
        assert gate.ledger.made == first
        stage.b.restored = [(MADE + 86_400, MADE + 259_200)]
        with pytest.raises(AccountError, match="has forgotten"):
            taken(stage, gate)
        stage.b.restored = []
        taken(stage, gate)
    put_back(gate, MADE + 1)
    assert gate.ledger.made == MADE + 1  # of a ledger that had its account, a later time is right


def test_an_edit_of_node_toml_does_not_talk_a_silent_server_away(stage: Stage, gate: Gate) -> None:
    assert known_servers(gate) == {"north", "south"}
    gate.ledger.put_back(MADE, "ab" * 16, known_servers(gate))
    gate.ledger.put_back(MADE, "cd" * 16)
    stage.b.silent = True
    only = {name: at for name, at in gate.settings.aggregators.items() if name == "north"}
    gate.settings = replace(gate.settings, aggregators=only)
    with pytest.raises(AccountError, match="south must account for this party"):
        taken(stage, gate)
    with pytest.raises(LedgerRefusedError, match="south must account"):
        gate.ledger.account([], {}, {"north": "aa" * 32})
    assert taken(stage, gate, "Dr. Ada Osei").given_up == ("patients",)


def test_servers_of_manifests_and_pins_must_account_too(stage: Stage, gate: Gate) -> None:
    gate.settings = replace(gate.settings, aggregators={})
    assert known_servers(gate) == {"north", "south"}  # pinned
    gate.outbox.note(b"x" * 32, "old", run("old").canonical.replace(b"north", b"upper"), LEFT)
    gate.outbox.note(b"y" * 32, "no", run("no").canonical.replace(b"north", b"other"), REFUSED)
    assert known_servers(gate) == {"north", "south", "upper"}


def test_a_run_that_is_known_by_its_manifest_is_not_charged_again_under_another_name(stage: Stage) -> None:
    made = run()
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
    with closing(gate_of(stage)) as gate:
        put_back(gate)
        leave_open_runs(gate)
        stage.b.spoil = another_name
        stage.a.accounted = stage.b.accounted = [(made, 1, False)]
        assert taken(stage, gate).runs == ()


def another_name(account: Any) -> Any:
    for each in account.runs:
        each.run = "other name"
    return account


def test_an_account_charges_no_fresh_population_that_nobody_declared(stage: Stage, gate: Gate) -> None:
    gate.ledger.register("others", charge_of(stage).unit, gate.settings.cap)
    put_back(gate)
    stage.a.accounted = [(run(), 1, True)]
    with pytest.raises(AccountError, match="would be a fresh one"):
        taken(stage, gate)
    assert "patients" not in ledger(stage).populations
    assert gate.outbox.runs() == []
