"""The policy's total is decided inside the ledger: racing processes and threads, some of them killed, keep to it."""

import multiprocessing
import random
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from parley.privacy.errors import BudgetExceededError
from parley.privacy.filters import Limit, Policy
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.support.ledgers import rows
from tests.support.limits import CAP, HALF, TOTAL

PROCESSES, THREADS, RUNS = 8, 2, 3


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
