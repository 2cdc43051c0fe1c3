"""kill −9 at random points of creating, reserving and recording: no ledger under-counts, and all of them verify."""

import multiprocessing
import os
import random
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from parley.privacy.errors import LedgerCorruptError
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.filters import Cap, Charge, Cost, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from parley.privacy.sampling import FixedSize

CHARGE = Charge("m", Event((SampledGaussian(FixedSize(100, 10), 4.0, 3),)), ROW, EXACT, "pld", Cost(0.01, 1e-9))
COST = CHARGE.cost.epsilon


def write_until_killed(path: Path, acknowledged: int) -> None:
    """The child: after every durable operation, and not before, say so."""
    ledger = Ledger.create(path, Policy())
    ledger.register("ward", ROW, Cap(1000.0, 1e-3), ledger.identity([b"a", b"b"]))
    for run in range(10_000):
        ledger.reserve(f"run {run}", "ward", CHARGE)
        os.write(acknowledged, b"R")
        for index in range(3):
            ledger.record(f"run {run}", index, "digest")
            os.write(acknowledged, b"r")


def killed_once(path: Path, steps: int, delay_seconds: float) -> tuple[int, int]:
    """Kill a writer some time after so many acknowledgements; how many reservations and releases it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            write_until_killed(path, writing)
        finally:
            os._exit(1)
    os.close(writing)
    said = b""
    while len(said) < steps and (chunk := os.read(reading, 1)):
        said += chunk
    time.sleep(delay_seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    while chunk := os.read(reading, 65536):
        said += chunk
    os.close(reading)
    assert os.WIFSIGNALED(status), "the writer ended by itself: its ledger failed"
    return said.count(b"R"), said.count(b"r")


def kill_many(directory: Path, count: int) -> int:
    """Kill `count` writers; returns how many ledgers held at least one run, so that the test knows it tested."""
    generator = random.Random(20261118)
    used = 0
    for index in range(count):
        path = directory / f"{index}.ledger"
        # Every fifth is killed while it creates the ledger, the others within a few operations of a random step.
        steps = 0 if index % 5 == 0 else generator.randrange(1, 12)
        reserved, released = killed_once(path, steps, generator.uniform(0.0, 0.03 if steps == 0 else 0.004))
        if reserved == 0 and not path.exists():
            continue
        # Opening is what a restarted process does first; a creation that was cut short is repeated.
        try:
            ledger = Ledger.open(path)
        except LedgerCorruptError:
            assert reserved == 0
            ledger = Ledger.create(path, Policy())
        ledger.verify()
        budget = ledger.populations.get("ward")
        assert reserved == 0 or budget is not None
        if budget is not None:
            assert budget.spent.epsilon >= reserved * COST * (1 - 1e-12)
            assert budget.spent.epsilon <= (reserved + 1) * COST * (1 + 1e-12)
            assert sum(len(run.recorded) for run in ledger.runs.values()) in (released, released + 1)
            # And it goes on: the next run is admitted.
            ledger.reserve("after", "ward", CHARGE)
            used += reserved > 0
        ledger.close()
    return used


def killed_apart(folder: Path, count: int) -> int:
    """In a process of one thread: what another thread holds at a fork, its copy would hold for ever."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(kill_many, folder, count).result()


def test_sixty_killed_ledgers_do_not_under_count(tmp_path: Path) -> None:
    assert killed_apart(tmp_path, 60) >= 40


@pytest.mark.slow
def test_a_thousand_killed_ledgers_do_not_under_count(tmp_path: Path) -> None:
    assert killed_apart(tmp_path, 1000) >= 700
