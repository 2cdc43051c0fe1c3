"""A server was caught: what its runs are charged then, beyond any cap, for good, and what is admitted afterwards."""

import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from parley.privacy import chain
from parley.privacy.budget import budget_of
from parley.privacy.canonical import canonical_json
from parley.privacy.errors import (
    BudgetExceededError,
    InvalidParameterError,
    LedgerCorruptError,
    LedgerRefusedError,
)
from parley.privacy.filters import Cost, Policy, epsilon_of
from parley.privacy.ledger import EndProof, Ledger
from parley.privacy.mechanism import ROW
from tests.support.ledgers import BASIC, BY_RDP, CAP, accepted, new, rows

ONE, OTHER = "a1" * 32, "b2" * 32
"""Digests of evidence."""
CHEAP = replace(BASIC, cost=Cost(0.1, 1e-6, epsilon_if_a_server_lies=0.3, delta_if_a_server_lies=1e-6))
DEAR = replace(BASIC, cost=Cost(0.1, 1e-6, epsilon_if_a_server_lies=2.5, delta_if_a_server_lies=1e-6))
WITHOUT = replace(BASIC, cost=Cost(0.1, 1e-6, epsilon_if_a_server_lies=None))
BY_RDP_TOO = replace(BY_RDP, cost=Cost(rdp=0.105, epsilon_if_a_server_lies=0.2, delta_if_a_server_lies=1e-6))


def spent(ledger: Ledger, population: str = "ward") -> Cost:
    return ledger.populations[population].spent


def test_every_run_of_it_counts_at_what_holds_if_a_server_lies_and_no_other_does(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    for run in "abc":
        ledger.reserve(run, "ward", CHEAP)
    assert ledger.charge_for_cheating(["a", "never charged", "c", "a"], ONE) == ("a", "c")
    assert (spent(ledger).epsilon, spent(ledger).delta) == pytest.approx((0.7, 3e-6))
    assert spent(ledger).epsilon_if_a_server_lies == pytest.approx(0.9)
    assert [ledger.runs[run].evidence for run in "abc"] == [[ONE], [], [ONE]]
    ledger.reserve("d", "ward", CHEAP)
    with pytest.raises(BudgetExceededError, match=r"epsilon 0\.2 of 1 .* are left, the run needs 0\.3"):
        ledger.reserve("e", "ward", BASIC)


def test_once_for_one_evidence_and_one_run_and_no_dearer_for_a_second_evidence(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("a", "ward", CHEAP)
    ledger.reserve("b", "ward", CHEAP)
    assert ledger.charge_for_cheating(["a"], ONE) == ("a",)
    head, before = ledger.verify(), spent(ledger)
    assert ledger.charge_for_cheating(["a"], ONE) == ()
    assert ledger.charge_for_cheating([], OTHER) == ()
    assert ledger.verify() == head
    assert ledger.charge_for_cheating(["a", "b"], ONE) == ("b",)
    after = spent(ledger)
    assert after.epsilon == pytest.approx(before.epsilon + 0.2)
    assert ledger.charge_for_cheating(["a"], OTHER) == ("a",)
    assert spent(ledger) == after
    assert Ledger.open(tmp_path / "l").runs["a"].evidence == [ONE, OTHER]


def test_no_cap_stands_against_it_and_beyond_it_nothing_more_is_admitted(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("a", "ward", DEAR)
    tiny = replace(BASIC, cost=Cost(1e-9, 1e-12))
    ledger.reserve("b", "ward", tiny)
    ledger.charge_for_cheating(["a"], ONE)
    assert spent(ledger).epsilon == pytest.approx(2.5)
    with pytest.raises(BudgetExceededError, match="nothing more fits this population"):
        ledger.reserve("c", "ward", tiny)
    ledger.record("b", 0, "what was admitted before goes on")
    budget = budget_of(ledger.policy, CAP, spent(ledger))
    assert budget.beyond_the_cap
    assert budget.epsilon_left == 0
    assert "epsilon 2.5 of 1 and delta 1e-06 of 1e-05 spent, 0 and 9e-06 left" in str(budget)
    assert str(budget).endswith(
        "1 run of it count as what holds if a server lies: BEYOND THE CAP, nothing more is admitted"
    )
    ledger.register("other wing", ROW, CAP)  # declared by nobody, yet another budget is untouched
    ledger.reserve("d", "other wing", tiny)


def test_where_there_is_no_guarantee_it_says_so_and_admits_nothing_more(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("a", "ward", WITHOUT)
    ledger.charge_for_cheating(["a"], ONE)
    assert spent(ledger).epsilon == 0.1
    tiny = replace(BASIC, cost=Cost(1e-9, 1e-12))
    for open_again in (ledger, Ledger.open(tmp_path / "l")):
        with pytest.raises(BudgetExceededError, match="without any guarantee against that: nothing more fits"):
            open_again.reserve("b", "ward", tiny)
        with pytest.raises(BudgetExceededError, match="without any guarantee"):
            open_again.require_room("ward", ROW, CAP, tiny)
    budget = budget_of(ledger.policy, CAP, spent(ledger))
    assert (budget.epsilon_left, budget.delta_left, budget.used_up) == (0, 0, ("epsilon", "delta"))
    assert "no guarantee if a server lies" in str(budget)
    assert str(budget).endswith("of 1 there is no guarantee, and nothing more is admitted")


@pytest.mark.parametrize("rule", [Policy(), Policy("rdp", 16)])
def test_what_no_figure_covers_is_shown_as_figures_and_judged_as_without_bound(tmp_path: Path, rule: Policy) -> None:
    ledger = new(tmp_path / "l", rule)
    by_rdp = replace(BY_RDP, cost=replace(BY_RDP.cost, epsilon_if_a_server_lies=None))
    ledger.reserve("a", "ward", by_rdp if rule.rule == "rdp" else WITHOUT)
    before = budget_of(rule, CAP, spent(ledger))
    ledger.charge_for_cheating(["a"], ONE)
    after = budget_of(rule, CAP, spent(ledger))
    assert epsilon_of(rule, CAP, spent(ledger)) == math.inf
    assert after.epsilon_spent == before.epsilon_spent < math.inf
    assert after.used_up == ("epsilon", "delta")
    assert "Infinity" not in json.dumps(after.as_json())


def test_an_end_gives_nothing_back_of_it_whichever_comes_first(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    for run in "ab":
        ledger.reserve(run, "ward", CHEAP)
    ledger.charge_for_cheating(["a"], ONE)
    for run in "ab":
        ledger.settle(EndProof(run, 0, "test", b""), accepted)
    assert spent(ledger).epsilon == pytest.approx(0.3)
    assert ledger.runs["a"].ended
    ledger.charge_for_cheating(["b"], ONE)
    assert spent(ledger).epsilon == pytest.approx(0.6)
    assert Ledger.open(tmp_path / "l").populations["ward"].spent == spent(ledger)


def test_under_the_rdp_filter_it_stands_beside_the_divergences(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l", Policy("rdp", 16))
    ledger.reserve("a", "ward", BY_RDP_TOO)
    ledger.reserve("b", "ward", BY_RDP)
    before = budget_of(ledger.policy, CAP, spent(ledger))
    ledger.charge_for_cheating(["a"], ONE)
    after = budget_of(ledger.policy, CAP, spent(ledger))
    assert after.rdp_spent == before.rdp_spent
    assert after.epsilon_spent == pytest.approx(before.epsilon_spent + 0.2)
    assert after.delta_spent == pytest.approx(before.delta_spent + 1e-6)
    assert before.rdp_capacity - 0.22 < after.rdp_capacity < before.rdp_capacity - 0.2
    assert not after.beyond_the_cap
    with pytest.raises(BudgetExceededError, match="Renyi divergence"):
        ledger.reserve("c", "ward", BY_RDP)


def test_under_the_rdp_filter_it_may_be_beyond_the_cap_too(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l", Policy("rdp", 16))
    dear = replace(BY_RDP_TOO.cost, epsilon_if_a_server_lies=2.5)
    ledger.reserve("a", "ward", replace(BY_RDP, cost=dear))
    ledger.charge_for_cheating(["a"], ONE)
    budget = budget_of(ledger.policy, CAP, spent(ledger))
    assert budget.beyond_the_cap
    assert "BEYOND THE CAP" in str(budget)
    with pytest.raises(BudgetExceededError, match="0 % of its rounds would fit"):
        ledger.reserve("b", "ward", BY_RDP)


def test_nobody_is_charged_less_for_it(tmp_path: Path) -> None:
    """A figure of ε₂ below ε is a fault of somebody's; the larger of the two stands."""
    ledger = new(tmp_path / "l")
    odd = Cost(0.4, 2e-6, epsilon_if_a_server_lies=0.3, delta_if_a_server_lies=1e-6)
    ledger.reserve("a", "ward", replace(BASIC, cost=odd))
    ledger.charge_for_cheating(["a"], ONE)
    assert (spent(ledger).epsilon, spent(ledger).delta) == (0.4, 2e-6)


@pytest.mark.parametrize("digest", ["", "3f", "A1" * 32, "a1" * 33, "g1" * 32, f"{ONE}\n"])
def test_what_is_no_digest_is_refused(tmp_path: Path, digest: str) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("a", "ward", CHEAP)
    with pytest.raises(InvalidParameterError, match="no digest of evidence"):
        ledger.charge_for_cheating(["a"], digest)


def test_a_charge_that_says_so_of_itself_is_not_taken(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    with pytest.raises(LedgerRefusedError, match="does not follow"):
        ledger.reserve("a", "ward", replace(BASIC, cost=Cost(0.1, 1e-6, caught=1)))
    assert "caught" not in canonical_json(BASIC.as_json())


@pytest.mark.parametrize("evidence", ["charged before", "an unknown run", "one run twice", "no run"])
def test_an_entry_that_this_program_would_not_write_is_an_edit(tmp_path: Path, evidence: str) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("a", "ward", CHEAP)
    ledger.charge_for_cheating(["a"], ONE)
    digest, runs = {
        "charged before": (ONE, ["a"]),
        "an unknown run": (OTHER, ["b"]),
        "one run twice": (OTHER, ["a", "a"]),
        "no run": (OTHER, []),
    }[evidence]
    with pytest.raises(LedgerCorruptError), ledger._writing():
        ledger._append("caught", {"evidence": digest, "runs": runs})
    with pytest.raises(LedgerCorruptError, match="entry 5"):
        Ledger.open(tmp_path / "l")


def test_a_head_that_cannot_be_written_loses_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("a", "ward", CHEAP)

    def full(path: Path, text: str) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(chain, "replace_durably", full)
        with pytest.raises(LedgerRefusedError, match="no space"):
            ledger.charge_for_cheating(["a"], ONE)
    assert ledger.charge_for_cheating(["a"], ONE) == ()
    assert Ledger.open(tmp_path / "l").runs["a"].evidence == [ONE]


def charge_until_killed(path: Path, acknowledged: int) -> None:
    """The child: charges for one evidence after another, three runs each, and says so after each."""
    ledger = Ledger.open(path)
    for number in range(10_000):
        ledger.charge_for_cheating(["a", "b", "c"], f"{number:064x}")
        os.write(acknowledged, b"c")


@pytest.mark.parametrize("steps", range(12))
def test_kill_9_leaves_all_of_it_or_nothing_and_it_can_be_done_again(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "l"
    ledger = Ledger.create(path, Policy())
    ledger.register("ward", ROW, CAP, ledger.identity(rows(50)))
    for run in "abc":
        ledger.reserve(run, "ward", CHEAP)
    ledger.close()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            charge_until_killed(path, writing)
        finally:
            os._exit(1)
    os.close(writing)
    done = 0
    while done < steps and os.read(reading, 1):
        done += 1
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the writer ended by itself"
    done += len(os.read(reading, 65536))
    os.close(reading)
    ledger = Ledger.open(path)
    kept = {run: len(ledger.runs[run].evidence) for run in "abc"}
    assert len(set(kept.values())) == 1, "all runs or none"
    assert done <= kept["a"] <= done + 1
    ledger.charge_for_cheating(["a", "b", "c"], f"{0:064x}")
    assert spent(ledger).epsilon == pytest.approx(0.9)
    assert ledger.runs["a"].evidence.count(f"{0:064x}") == 1
