"""Several workers fill one pool: the order is that of the turns, whoever is first; all end together; used once."""

import contextlib
import math
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.aggregator import noise
from parley.aggregator.pool import NoisePool
from parley.aggregator.workers import Demand, Made, Staff, Turns, enough
from parley.mpc import audit
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.covert import CovertSession
from parley.mpc.errors import CaughtError, FrameError, MpcError, PeerClosedError, PeerError, SessionClosedError
from parley.mpc.session import Session
from parley.mpc.tables import load
from parley.node.credentials import Identity
from tests.aggregator.test_noise import COVERT, Ends, both_sessions
from tests.aggregator.test_noise import LANES as COVERT_LANES
from tests.aggregator.test_pool import take
from tests.support.covert import Leak, lying
from tests.support.documents import manifest
from tests.support.statistics import failures
from tests.support.until import GIVE_UP_SECONDS, until

LANES = 512
WORKERS = 3
Words = np.ndarray[Any, np.dtype[np.uint64]]


class Slow(MemoryLink):
    """One end that may be late, silent or gone."""

    peer: "MemoryLink"

    def __init__(self) -> None:
        super().__init__()
        self.late: Callable[[], float] = lambda: 0.0
        self.silent = False

    def knows_workers(self, deadline: float) -> bool:
        return True

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        time.sleep(self.late())
        if not self.silent:
            super().send(frame)


class Lines:
    """Streams between two pools, in memory."""

    def __init__(self, swap: dict[int, int] | None = None) -> None:
        self.first: queue.SimpleQueue[Slow] = queue.SimpleQueue()
        self.further: dict[int, queue.SimpleQueue[Slow]] = {number: queue.SimpleQueue() for number in range(16)}
        self.dialled: list[dict[int, Slow]] = []
        """By worker, of each crew."""
        self.late: Callable[[int], Callable[[], float]] = lambda number: lambda: 0.0
        self._swap = swap or {}

    def _dial(self, number: int) -> Slow:
        a, b = Slow(), Slow()
        a.peer, b.peer = b, a
        a.late = self.late(number)
        self.dialled[-1][number] = a
        (self.further[self._swap.get(number, number)] if number else self.first).put(b)
        return a

    def dial(self) -> Slow:
        self.dialled.append({})
        return self._dial(0)

    def accept(self) -> Slow:
        try:
            return self.first.get(timeout=1)
        except queue.Empty:
            raise PeerError("nobody dials") from None

    def accept_worker(self, number: int, over: Callable[[], bool]) -> Slow:
        while not over():
            with contextlib.suppress(queue.Empty):
                link = self.further[number].get(timeout=0.05)
                if link._open:
                    return link
        raise PeerClosedError("the stream did not come")


class Noted(Session):
    """Keeps what it makes, by its place."""

    made: dict[bytes, list[Words]]

    def samples(self, lanes: int) -> Words:
        found = super().samples(lanes)
        self.made.setdefault(self.channel.place, []).append(found.copy())
        return found


class Two:
    """Two pools, and all that their sessions have made."""

    def __init__(self, lines: Lines, workers: tuple[Any, Any], capacity: int, deadline: float) -> None:
        tables = load("strips", "standard")
        self.lines = lines
        self.made: list[dict[bytes, list[Words]]] = [{}, {}]
        self.broken: list[list[Exception]] = [[], []]
        self.pools = []
        for role, (connect, further) in enumerate(
            ((lines.dial, lambda number, over: lines._dial(number)), (lines.accept, lines.accept_worker))
        ):
            kept = self.made[role]

            def begin(channel: Channel, demand: Demand, role: int = role, kept: Any = kept) -> Session:
                made = Noted(channel, role, tables)
                made.made = kept
                return made

            self.pools.append(
                NoisePool(
                    connect, role, tables, capacity, LANES, deadline, begin=begin,
                    staff=Staff(workers[role], further, 2), broken=self.broken[role].append,
                )
            )  # fmt: skip


@contextlib.contextmanager
def two(
    lines: Lines | None = None, workers: tuple[Any, Any] = (WORKERS, WORKERS), capacity: int = 32 * LANES,
    deadline: float = GIVE_UP_SECONDS,
) -> Iterator[Two]:  # fmt: skip
    made = Two(lines or Lines(), workers, capacity, deadline)
    for pool in made.pools:
        pool.start()
    try:
        yield made
    finally:
        stopping = [threading.Thread(target=pool.stop) for pool in made.pools]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(GIVE_UP_SECONDS)


def drawn(both: Two, count: int) -> tuple[Words, Words]:
    """From the beginning of a session, on both servers."""
    epoch, start = both.pools[0].position(GIVE_UP_SECONDS)
    assert both.pools[1].position(GIVE_UP_SECONDS) == (epoch, start)
    found: list[Any] = [None, None]

    def draw(role: int) -> None:
        found[role] = take(both.pools[role], epoch, start, count)

    threads = [threading.Thread(target=draw, args=(role,)) for role in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_SECONDS)
    return found[0], found[1]


def normal(a: Words, b: Words) -> np.ndarray[Any, np.dtype[np.float64]]:
    return (a + b).view(np.int64) / 2.0**41


# ------------------------------------------------------------ turns


def ready() -> bool:
    return True


def test_batches_are_taken_by_turn_in_whatever_order_they_come() -> None:
    for seed in range(50):
        order = list(range(12))
        random.Random(seed).shuffle(order)
        turns, found = Turns(4), list[int]()
        for turn in order:
            turns.hand_in(turn, Made(np.full(2, turn, np.uint64), (0, 0), ready))
            found += [int(made.samples[0]) for made in turns.due()]
            assert found == list(range(len(found))), "nothing is taken before its turn"
        assert found == list(range(12))


def test_no_turn_is_taken_while_an_earlier_one_has_no_verdict() -> None:
    turns, verdict = Turns(2), [False]
    turns.hand_in(0, Made(np.empty(0, np.uint64), (1, 0), lambda: verdict[0]))
    turns.hand_in(1, Made(np.ones(3, np.uint64), (0, 0), ready))
    assert list(turns.due()) == []
    verdict[0] = True
    assert [len(made.samples) for made in turns.due()] == [0, 3]


def test_who_is_ahead_waits_for_the_others_and_for_room() -> None:
    turns = Turns(3)
    assert [turn for turn in range(20) if turns.may_begin(turn, 100)] == [0, 1, 2, 3, 4, 5]
    assert [turn for turn in range(20) if turns.may_begin(turn, 2)] == [0, 1]
    turns.hand_in(0, Made(np.ones(3, np.uint64), (0, 0), ready))
    list(turns.due())
    assert [turn for turn in range(20) if turns.may_begin(turn, 1)] == [0, 1]
    turns.hand_in(2, Made(np.ones(3, np.uint64), (0, 0), ready))
    assert turns.erase() == 3


def test_how_many_are_enough_follows_from_cores_and_line() -> None:
    assert enough(2, 0.0002, 8192) == 1
    assert enough(16, 0.0002, 8192) == 8
    assert [enough(2, trip, 8192) for trip in (0.05, 0.1)] == [7, 13]
    assert enough(64, 0.3, 1024) == 16
    assert enough(1, 0.0, 8192) == 1
    staff = Staff("auto", lambda number, over: MemoryLink(), 64)
    assert [staff.wanted(0.3, lanes) for lanes in (1 << 10, 1 << 13, 1 << 14)] == [16, 16, 8], "or memory runs out"
    assert [Staff(12, staff.connect).wanted(0.0, lanes) for lanes in (1 << 10, 1 << 14, 1 << 18)] == [12, 8, 1]


# ------------------------------------------------------------ a pool of several


@pytest.mark.parametrize("slowest", [0, 1, 2])
def test_the_order_of_the_samples_is_the_turns_whoever_is_slow(slowest: int) -> None:
    lines = Lines()
    draws = random.Random(slowest)
    lines.late = lambda number: lambda: 0.03 if number == slowest else 0.01 * draws.random()
    with two(lines) as both:
        a, b = drawn(both, 9 * LANES)
        assert [pool.level().workers for pool in both.pools] == [WORKERS] * 2
        places = list(both.made[0])
        assert len(places) == len(set(places)) == WORKERS
        assert set(places) == set(both.made[1]), "both mean the same worker by the same place"
        assert all(len(place) == 32 for place in places)
        # The first worker's place is known by who has opened first; the others' follow from what the pool has taken.
        for role, share in ((0, a), (1, b)):
            rests, at = {place: list(batches) for place, batches in both.made[role].items()}, 0
            order: list[bytes] = []
            while at < len(share) - LANES:
                (place,) = [each for each, rest in rests.items() if rest and rest[0][0] == share[at]]
                assert np.array_equal(rests[place][0], share[at : at + len(rests[place][0])])
                at += len(rests[place].pop(0))
                order.append(place)
            assert all(order[turn] == order[turn % WORKERS] for turn in range(len(order)))
            assert len(set(order)) == WORKERS
        assert not failures(normal(a, b)) if len(a) > 100_000 else 0.93 < normal(a, b).std() < 1.07  # 7 deviations


def test_memory_is_bounded_with_what_waits_for_its_turn() -> None:
    lines = Lines()
    lines.late = lambda number: lambda: 0.05 if number == 0 else 0.0
    with two(lines, capacity=8 * LANES) as both:
        seen = 0

        def resting() -> bool:
            nonlocal seen
            for pool in both.pools:
                with pool._changed:
                    waiting = sum(len(made.samples) for made in pool._turns._early.values())
                    assert sum(len(chunk) for _, chunk in pool._chunks) + waiting <= 8 * LANES
                    seen = max(seen, waiting)
            return not any(pool._filling for pool in both.pools)

        until(resting, pause_seconds=0.005)
        assert seen, "the others were ahead of the slow one"


def test_a_reservation_longer_than_the_pool_streams_through_it() -> None:
    with two(capacity=2 * LANES) as both:
        a, b = drawn(both, 12 * LANES)
        assert 0.93 < normal(a, b).std() < 1.07  # 6,144 samples: 7 deviations
        assert both.pools[0].level().sessions == both.pools[1].level().sessions == 1


@pytest.mark.parametrize(("how", "number"), [("closed", 0), ("closed", 2), ("silent", 2)])
def test_a_stream_that_is_lost_ends_all_workers_and_every_sample_with_them(how: str, number: int) -> None:
    with two(deadline=1.5 if how == "silent" else GIVE_UP_SECONDS) as both:
        until(lambda: all(pool.level().available > 2 * LANES for pool in both.pools))
        epoch, _ = both.pools[0].position(GIVE_UP_SECONDS)
        places = [pool.reserve(epoch, 0, 100) for pool in both.pools]
        chunks = [chunk for _, chunk in both.pools[0]._chunks]
        link = both.lines.dialled[-1][number]
        if how == "closed":
            link.close()
        else:
            link.silent = True
        until(lambda: all(pool.level().sessions > 1 and pool._epoch not in (b"", epoch) for pool in both.pools))
        assert not any(chunk.any() for chunk in chunks)
        for pool, place in zip(both.pools, places, strict=True):
            with pytest.raises(SessionClosedError, match="gone"):
                list(pool.collect(place, 5))
        assert all(not each._open for each in both.lines.dialled[0].values())


@pytest.mark.slow
def test_workers_that_are_lost_at_random_leave_no_sample_used_twice() -> None:
    """Kills at random moments, of random streams; whatever both servers did take is the same samples, and new ones."""
    draws = random.Random(7)
    kept: list[tuple[Words, Words]] = []
    with two() as both:
        for _ in range(6):
            with contextlib.suppress(MpcError):
                epoch, start = both.pools[0].position(GIVE_UP_SECONDS)
                pieces = [take(pool, epoch, start, 700) for pool in both.pools]
                kept.append((pieces[0], pieces[1]))
            time.sleep(draws.random() * 0.2)
            crew = both.lines.dialled[-1]
            crew[draws.choice(list(crew))].close()
        sessions = both.pools[0].level().sessions
    assert sessions >= 3
    assert len(kept) >= 2
    every = np.concatenate([a for a, _ in kept])
    assert len(np.unique(every)) == len(every), "no share of 64 bits came twice"
    assert 0.8 < normal(*(np.concatenate(each) for each in zip(*kept, strict=True))).std() < 1.2  # 1,400: 10 deviations


def test_streams_that_are_swapped_are_refused() -> None:
    with two(Lines(swap={1: 2, 2: 1})) as both:
        until(lambda: "is another one to the other server" in str(both.pools[0].level().last_error))
        assert both.pools[0].level().used == 0
        until(lambda: any(isinstance(error, FrameError) for error in both.broken[0] + both.broken[1]))


@pytest.mark.parametrize("workers", [(1, 4), (4, 1)])
def test_the_smaller_number_is_taken(workers: tuple[int, int]) -> None:
    with two(workers=workers) as both:
        a, b = drawn(both, 3 * LANES)
        assert 0.85 < normal(a, b).std() < 1.15  # 1,536 samples: 8 deviations
        assert [pool.level().workers for pool in both.pools] == [1, 1]


def test_a_pool_at_rest_says_so_over_all_streams() -> None:
    """Or one that is full for longer than a deadline would end."""
    with two(capacity=6 * LANES, deadline=2.0) as both:
        until(lambda: not both.pools[0]._filling and not both.pools[1]._filling)
        time.sleep(3.0)
        assert [pool.level().sessions for pool in both.pools] == [1, 1]


@pytest.mark.slow
def test_a_hundred_thousand_samples_in_the_order_of_the_turns_are_normal() -> None:
    with two(workers=(4, 4)) as both:
        pieces = [drawn(both, 20_000) for _ in range(6)]
    a, b = (np.concatenate(each) for each in zip(*pieces, strict=True))
    assert not failures(normal(a, b))
    # One sample and the one a crew's round later, or a batch later, have nothing to do with each other: each of these
    # correlations is a normal of deviation 1/sqrt(n), and beyond 6 of it in one of 6e-9 honest runs of all three.
    x = normal(a, b)
    for lag in (1, LANES, 4 * LANES):
        assert abs(float(np.mean(x[lag:] * x[:-lag]))) * math.sqrt(len(x) - lag) < 6


# ------------------------------------------------------------ over gRPC, under audit


@pytest.fixture
def several(
    identities: tuple[Path, Identity, Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ends]:
    monkeypatch.setattr(noise, "MOST_LANES", COVERT_LANES)
    made = Ends(identities, tmp_path, (WORKERS, WORKERS))
    for end in (made.a, made.b):
        end.noise.covert._capacity = 16 * COVERT_LANES
    yield made
    made.close()


def test_audits_are_counted_by_turn_and_the_same_on_both_servers(several: Ends) -> None:
    several.start(plain=True)
    several.follow(manifest(run="open", **{**COVERT, "noise.audit": "1/2"}))
    until(lambda: all(end.noise.plain.level().available for end in (several.a, several.b)))
    assert several.a.noise.plain.level().workers == WORKERS
    pools = [end.noise.covert for end in (several.a, several.b)]
    (epoch, start), there = (pool.position(GIVE_UP_SECONDS, 0) for pool in pools)  # each is open in its own time
    assert there == (epoch, start)
    places = [pool.reserve(epoch, start, 3 * COVERT_LANES) for pool in pools]
    a, b = (
        np.concatenate(list(pool.collect(place, GIVE_UP_SECONDS))) for pool, place in zip(pools, places, strict=True)
    )
    assert 0.9 < normal(a, b).std() < 1.1  # 3,072 samples: 7 deviations
    assert places[0].audits == places[1].audits[::-1]
    assert pools[0].level().workers == pools[1].level().workers == WORKERS


def test_a_liar_in_one_worker_is_caught_and_all_of_them_end(several: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    liar, began = lying(Leak), list[bytes]()

    def session(channel: Channel, role: int, *rest: Any, **named: Any) -> CovertSession:
        if role == 1:
            began.append(channel.place)
        last = role == 1 and len(began) == WORKERS
        made: CovertSession = (liar if last else CovertSession)(channel, role, *rest, **named)
        return made

    monkeypatch.setattr(noise, "CovertSession", session)
    several.start()
    several.follow(manifest(run="open", **{**COVERT, "noise.audit": "1/2"}))
    for end in (several.a, several.b):
        end.noise.covert._capacity = 1 << 20  # or it might be full before there is an audit of that worker
    until(lambda: several.a.folder.pending())
    until(lambda: "parley evidence answer" in several.a.noise.covert.level().resting)
    until(lambda: any(isinstance(error, CaughtError) for error in several.a.cheated))
    assert several.b.folder.all() == [], "it could accuse nobody"
    assert several.a.noise.covert.level().available == 0
    assert not several.a.noise._breaks.too_many


def test_nothing_after_an_audit_leaves_before_its_verdict_whichever_worker_made_it(
    several: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, replays, departure = threading.Event(), list[int](), vars(audit)["departure"]

    def held_up(*rest: Any) -> str | None:
        replays.append(rest[2].number)
        verdict.wait(GIVE_UP_SECONDS)
        found: str | None = departure(*rest)
        return found

    class First(CovertSession):
        """Audits the first worker's first batch, on A."""

        def _coin(self) -> bool:
            return self._role == 0 and self._number == 1 and self is sessions[0]

    sessions: list[CovertSession] = []

    def session(channel: Channel, role: int, *rest: Any, **named: Any) -> CovertSession:
        made = First(channel, role, *rest, **named)
        if role == 0:
            sessions.append(made)
        return made

    monkeypatch.setattr(audit, "departure", held_up)
    monkeypatch.setattr(noise, "CovertSession", session)
    try:
        several.start()
        several.follow(manifest(run="open", **COVERT))
        until(lambda: several.b.made >= 2 * COVERT_LANES - 200)  # B has no audit to wait for
        until(lambda: replays and len(several.a.noise.covert._turns._early) >= WORKERS)
        assert several.a.made == 0
        assert several.a.noise.covert.level().available == 0
    finally:
        verdict.set()
    until(lambda: several.a.made >= 2 * COVERT_LANES - 200)


def test_another_demand_breaks_no_batch_of_any_worker(several: Ends) -> None:
    several.start()
    several.follow(manifest(run="open", **COVERT))
    for rate in ("1/2", "1/4"):
        until(lambda: several.a.noise.covert._produced and several.b.noise.covert._produced)
        sessions = several.a.noise.covert.level().sessions
        several.follow(manifest(run="open", **{**COVERT, "noise.audit": rate}))
        until(lambda sessions=sessions: several.a.noise.covert.level().sessions > sessions)  # type: ignore[misc]
    assert not several.a.noise._breaks._at
    assert not several.b.noise._breaks._at


def test_evidence_of_one_worker_is_kept_before_anything_begins_and_of_others_nothing_is_left_over(
    several: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sure(CovertSession):
        def _coin(self) -> bool:
            return True

    both_sessions(lying(Leak), monkeypatch, Sure)
    several.start()
    several.follow(manifest(run="open", **{**COVERT, "noise.audit": "1/2"}))
    until(lambda: "parley evidence answer" in several.a.noise.covert.level().resting)
    until(lambda: several.a.cheated)
    caught = [error for error in several.a.cheated if isinstance(error, CaughtError)]
    digests = {error.evidence.digest.hex() for error in caught}
    (held,) = several.a.folder.all()
    assert held.digest in digests
    assert several.a.folder.read(held.digest)
    assert several.a.folder.unread() == [], "the next start would hold it against runs that have no part in it"
    assert several.a.noise._unkept == []
