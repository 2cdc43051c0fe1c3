"""The policy's total is decided inside the ledger: racing processes and threads, some of them killed, keep to it."""

import multiprocessing
import random
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from parley.privacy.errors import BudgetExceededError
from parley.privacy.filters import Cap, Charge, Cost, Limit, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.privacy.ledgers import BY_RDP, EVENT, rows

TOTAL, CAP = 2.0, Cap(20.0, 1e-3)
PROCESSES, THREADS, RUNS = 8, 2, 3
HALF = Charge("m" * 64, EVENT, ROW, EXACT, "pld", Cost(epsilon=0.5, delta=1e-6))


def charge(path: Path, name: str) -> None:
    for number in range(RUNS):
        ledger = Ledger.open(path)
        try:
            ledger.reserve(f"{name}-{number}", "ward", HALF, None, Limit(TOTAL))
        except BudgetExceededError as refusal:
            assert refusal.exhausted == ("epsilon",)
        finally:
            ledger.close()


def work(path: Path, name: str) -> None:
    threads = [threading.Thread(target=charge, args=(path, f"{name}-{number}")) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@pytest.mark.parametrize("seed", range(2))
def test_racing_and_killed_processes_never_exceed_the_limit(tmp_path: Path, seed: int) -> None:
    path, chance = tmp_path / "ledger.sqlite", random.Random(seed)
    ledger = Ledger.create(path, Policy())
    ledger.register("ward", ROW, CAP, ledger.identity(rows(50)))
    ledger.close()
    context = multiprocessing.get_context("spawn")
    workers: list[BaseProcess] = [
        context.Process(target=work, args=(path, f"p{number}")) for number in range(PROCESSES)
    ]
    for each in workers:
        each.start()
    while Ledger.open(path).populations["ward"].spent.epsilon == 0 and any(each.is_alive() for each in workers):
        time.sleep(0.01)
    for each in chance.sample(workers, 3):
        each.kill()
    for each in workers:
        each.join()
    held = Ledger.open(path)
    assert held.populations["ward"].spent.epsilon == TOTAL
    assert len(held.runs) == 4
    with pytest.raises(BudgetExceededError, match="policy"):
        held.reserve("one more", "ward", HALF, None, Limit(TOTAL))
    held.reserve("one more", "ward", HALF, None, Limit(TOTAL + 0.5))


def test_what_a_run_claims_counts_where_it_is_more_than_its_charge(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Policy())
    ledger.register("ward", ROW, CAP, ledger.identity(rows(50)))
    with pytest.raises(BudgetExceededError):
        ledger.reserve("run", "ward", HALF, None, Limit(TOTAL, claimed=2.1))
    ledger.reserve("run", "ward", HALF, None, Limit(TOTAL, claimed=2.0))


def test_a_refusal_names_what_is_exhausted(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Policy())
    ledger.register("ward", ROW, Cap(20.0, 3e-6), ledger.identity(rows(50)))
    for number in range(3):
        ledger.reserve(f"run {number}", "ward", HALF)
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.reserve("one more", "ward", HALF)
    assert refusal.value.exhausted == ("delta",)
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.reserve("large", "ward", Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=30.0, delta=1e-6)))
    assert refusal.value.exhausted == ("epsilon", "delta")


def test_a_limit_holds_under_the_rdp_filter_too(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Policy("rdp", 16))
    ledger.register("ward", ROW, Cap(4.0, 1e-5), ledger.identity(rows(50)))
    with pytest.raises(BudgetExceededError, match="policy"):
        ledger.reserve("run", "ward", BY_RDP, None, Limit(0.5))
    ledger.reserve("run", "ward", BY_RDP, None, Limit(2.0))
