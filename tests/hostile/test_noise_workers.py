"""Several noise workers against a server that lies, hangs up or is slow: what one of them does to the others."""

import contextlib
import random
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parley.aggregator import pool as pools
from parley.aggregator.pool import NoisePool
from parley.aggregator.streams import Crew
from parley.aggregator.workers import MOST_LANES_AT_ONCE, Demand, Ended, Made, Staff, Turns, Workers, _Busy, _settled
from parley.mpc import audit
from parley.mpc.audit import Audits, Examination
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.errors import CaughtError, MpcError
from parley.mpc.tables import load
from tests.aggregator.test_pool import take
from tests.aggregator.test_workers import LANES, Lines, Words, normal, two
from tests.support.statistics import failures
from tests.support.until import GIVE_UP_SECONDS, until

NOTHING: Any = None


# ------------------------------------------------------------ quarantine


def test_a_short_audit_that_is_through_first_does_not_pass_for_the_long_one_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A peer that asks for a small batch after the large one that it lied in: the replay of the small one is through
    long before. While the worker waits for the first verdict, other workers' batches must stay where they are.
    """
    verdict, awaited = threading.Event(), threading.Event()
    await_verdict = Examination.verdict

    def departure(native: Any, tables: Any, record: Any, *rest: Any) -> None:
        if record == "long":
            verdict.wait(GIVE_UP_SECONDS)

    def hears(examination: Examination) -> None:
        awaited.set()
        await_verdict(examination)

    monkeypatch.setattr(audit, "departure", departure)
    monkeypatch.setattr(Examination, "verdict", hears)
    audits = Audits(NOTHING, NOTHING, NOTHING, keep=lambda evidence: None, end=lambda why: None)
    turns = Turns(2)

    def audited(name: str) -> Made:
        audits.begin(SimpleNamespace(record=name, role=0), NOTHING, NOTHING)  # type: ignore[arg-type]
        return Made(np.empty(0, np.uint64), (1, 0), _settled(Audited(audits)))  # type: ignore[arg-type]

    turns.hand_in(0, audited("long"))
    turns.hand_in(1, Made(np.ones(3, np.uint64), (0, 0), lambda: True))  # another worker's
    audited("short")
    until(lambda: audits.passed == 1)
    hearing = threading.Thread(target=audits.hear, args=(1,), daemon=True)
    hearing.start()
    try:
        assert awaited.wait(GIVE_UP_SECONDS)
        assert audits.settled == 0
        assert list(turns.due()) == []
    finally:
        verdict.set()
        hearing.join(GIVE_UP_SECONDS)
    assert audits.settled == 2
    assert [len(made.samples) for made in turns.due()] == [0, 3]


class Audited:
    """What a worker's batch asks its session."""

    def __init__(self, audits: Audits) -> None:
        self._audits = audits

    @property
    def audits_made(self) -> int:
        return self._audits.made

    @property
    def audits_settled(self) -> int:
        return self._audits.settled


def test_who_was_caught_is_told_of_although_another_worker_ended_by_a_fault() -> None:
    told: list[Exception] = []
    caught = CaughtError("caught", NOTHING)
    pool = NoisePool(lambda: MemoryLink(), 0, load("strips", "standard"), cheated=told.append, broken=told.append)
    pool._one_crew = lambda demand: [Ended(RuntimeError("a fault"), True), Ended(caught, True)]  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="a fault"):
        pool._fill()
    assert told == [caught, caught], "its break and its cheating, each once"


# ------------------------------------------------------------ memory, threads


class Counting:
    """A session without any noise: how many lanes it was asked for. One batch, and its crew is over."""

    def __init__(self, crew: list[Workers]) -> None:
        self.id, self.channel, self.asked, self._crew = bytes(16), Answering(), list[int](), crew

    def samples(self, lanes: int) -> Words:
        self.asked.append(lanes)
        self._crew[0]._over = True
        return np.empty(0, np.uint64)


class Answering:
    """A peer that wants the largest batches there are."""

    place = b""

    def next_batch(self) -> None: ...

    def run(self, protocol: Any) -> Any:
        next(protocol)
        try:
            protocol.send([np.array([32], np.uint8)])
        except StopIteration as stop:
            return stop.value
        raise AssertionError


@pytest.mark.parametrize("workers", [1, 2, 5, 16])
def test_batches_that_grow_later_take_no_more_memory_than_all_workers_may(workers: int) -> None:
    """Sixteen workers were agreed on for small batches; then the run that wanted small ones ends."""
    pool: Any = SimpleNamespace(
        asked=lambda: Demand(1 << 17), wants=lambda turn: True, begun=lambda lanes: None, hand_in=lambda *made: None
    )
    crew: list[Workers] = []
    crew.append(Workers(pool, 0, Crew(workers, b"c" * 32), Demand(1024), NOTHING, None, 1024, 30.0))
    session: Any = Counting(crew)
    crew[0]._batches(0, session, _Busy())
    assert 1024 <= session.asked[0] <= MOST_LANES_AT_ONCE // workers
    assert session.asked[0] > MOST_LANES_AT_ONCE // workers // 2


def test_a_stream_on_which_no_session_began_is_closed() -> None:
    def fails(channel: Channel, demand: Demand) -> Any:
        raise OSError("no key to sign with")

    ours, theirs = MemoryLink.pair()
    pool: Any = SimpleNamespace(emptied=lambda why: None)
    workers = Workers(pool, 0, Crew(2, b"c" * 32), Demand(512), fails, None, 512, 30.0)
    channel = Channel(ours)
    workers._work(1, lambda: channel, lambda session: None)
    assert not theirs._open
    assert workers.over


def test_a_crew_that_ends_between_batches_waits_for_nobody_who_does_not_join() -> None:
    """The other server's crew was over before it had taken that stream."""
    ours, _ = MemoryLink.pair()
    pool: Any = SimpleNamespace(emptied=lambda why: None)
    staff = Staff(2, lambda number, over: ours)
    workers = Workers(pool, 0, Crew(2, b"c" * 32), Demand(512), NOTHING, staff, 512, 10 * GIVE_UP_SECONDS)
    other = threading.Thread(target=workers._other, args=(1,), daemon=True)
    other.start()
    until(lambda: ours.peer._inbox)  # it has said who it is, and nobody answers
    workers.wind("the runs that are open ask for other noise")
    other.join(GIVE_UP_SECONDS)
    assert not other.is_alive()


class Empty:
    """A session that makes nothing, one exchange a batch."""

    def __init__(self, channel: Channel, demand: Demand) -> None:
        self.id, self.channel = bytes(16), channel

    def samples(self, lanes: int) -> Words:
        self.channel.exchange([np.zeros(1, np.uint8)])
        return np.empty(0, np.uint64)

    def close(self) -> None:
        self.channel.close("over")


def test_two_hundred_crews_that_were_lost_at_random_leave_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "RETRY_SECONDS", 0.0)
    before, draws, lines, tables = threading.active_count(), random.Random(16), Lines(), load("strips", "standard")
    ends = [
        NoisePool(
            connect, role, tables, 8 * LANES, LANES, GIVE_UP_SECONDS, begin=Empty, staff=Staff(3, further, 2)
        )
        for role, connect, further in (
            (0, lines.dial, lambda number, over: lines._dial(number)), (1, lines.accept, lines.accept_worker),
        )
    ]  # fmt: skip
    for end in ends:
        end.start()
    try:
        for number in range(200):
            until(lambda at=number: len(lines.dialled) > at and lines.dialled[-1], pause_seconds=0.001)  # type: ignore[misc]
            if number % 2:  # when all its workers are there; the others in the middle of their beginning
                until(lambda: len(lines.dialled[-1]) == 3, pause_seconds=0.001)
            with contextlib.suppress(RuntimeError, IndexError):  # of a crew that is being dialled
                draws.choice(list(lines.dialled[-1].values())).close()
            assert threading.active_count() <= before + 8, "two pools, two more workers each"
    finally:
        stopping = [threading.Thread(target=end.stop) for end in ends]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(GIVE_UP_SECONDS)
    until(lambda: threading.active_count() <= before)
    assert any(len(crew) == 3 for crew in lines.dialled)


# ------------------------------------------------------------ the samples' law


@pytest.mark.slow
def test_samples_by_turn_are_normal_while_workers_are_lost_at_random() -> None:
    """False alarms: tests/support/statistics.py, 1.1e-8 for the set; the number of samples is fixed before."""
    draws, kept = random.Random(61), list[Words]()
    with two(workers=(4, 4)) as both:
        while sum(len(each) for each in kept) < 60_000:
            with contextlib.suppress(MpcError):
                epoch, start = both.pools[0].position(GIVE_UP_SECONDS)
                a, b = (take(pool, epoch, start, 4_000) for pool in both.pools)
                kept.append(normal(a, b))  # type: ignore[arg-type]
            crew = list(both.lines.dialled[-1].values())
            draws.choice(crew).close()
        assert both.pools[0].level().sessions > 10
    assert not failures(np.concatenate(kept)[:60_000])  # type: ignore[arg-type]
