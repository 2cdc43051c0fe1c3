"""The pool: every sample once or never, the same on both servers, bounded, and gone with its session."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from parley.aggregator.pool import NoisePool
from parley.mpc.channel import Link, MemoryLink
from parley.mpc.errors import MpcError, PeerError, PositionError, SessionClosedError
from parley.mpc.tables import load
from tests.support.until import GIVE_UP_SECONDS, until

LANES = 512


class Line:
    """Connects two pools in memory, again and again."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[MemoryLink] = queue.SimpleQueue()
        self.links: list[MemoryLink] = []

    def dial(self) -> Link:
        a, b = MemoryLink.pair()
        self.links.append(a)
        self.waiting.put(b)
        return a

    def accept(self) -> Link:
        try:
            return self.waiting.get(timeout=1)
        except queue.Empty:
            raise PeerError("nobody dials") from None


@contextlib.contextmanager
def pools(
    capacity: int = 4 * LANES, start: bool = True, lanes: int = LANES
) -> Iterator[tuple[NoisePool, NoisePool, Line]]:
    line = Line()
    tables = load("strips", "standard")
    a = NoisePool(line.dial, 0, tables, capacity, lanes, deadline_seconds=GIVE_UP_SECONDS)
    b = NoisePool(line.accept, 1, tables, capacity, lanes, deadline_seconds=GIVE_UP_SECONDS)
    if start:
        a.start()
        b.start()
    try:
        yield a, b, line
    finally:
        stopping = [threading.Thread(target=pool.stop) for pool in (a, b)]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(GIVE_UP_SECONDS)
            assert not thread.is_alive()


def take(pool: NoisePool, epoch: bytes, start: int, count: int) -> np.ndarray:
    return np.concatenate(list(pool.collect(pool.reserve(epoch, start, count), GIVE_UP_SECONDS)))


def test_both_servers_hold_shares_of_the_same_samples() -> None:
    with pools() as (a, b, _):
        epoch, start = a.position(GIVE_UP_SECONDS)
        assert b.position(GIVE_UP_SECONDS) == (epoch, start) == (epoch, 0)
        x = (take(a, epoch, 0, 1500) + take(b, epoch, 0, 1500)).view(np.int64) / 2.0**41
        assert 0.87 < x.std() < 1.13  # 1,500 samples: 7 deviations
        assert np.abs(x).max() < 9


def test_a_sum_longer_than_the_pool_is_streamed_through_it() -> None:
    with pools(capacity=2 * LANES) as (a, b, _):
        epoch, _ = a.position(GIVE_UP_SECONDS)
        assert b.position(GIVE_UP_SECONDS)[0] == epoch
        results: dict[str, np.ndarray] = {}

        def run(name: str, pool: NoisePool) -> None:
            results[name] = take(pool, epoch, 0, 10 * LANES)

        threads = [threading.Thread(target=run, args=p) for p in (("a", a), ("b", b))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GIVE_UP_SECONDS)
        x = (results["a"] + results["b"]).view(np.int64) / 2.0**41
        assert len(x) == 10 * LANES
        assert 0.93 < x.std() < 1.07  # 5,120 samples: 7 deviations


def test_memory_is_bounded_and_the_pool_goes_on_when_there_is_room() -> None:
    with pools(capacity=3 * LANES) as (a, b, _):
        until(lambda: a.level().available > 2 * LANES)  # a third batch, after which there is no room for another
        time.sleep(0.5)
        assert a.level().available <= 3 * LANES
        assert sum(len(chunk) for _, chunk in a._chunks) <= 3 * LANES
        epoch, _ = a.position(GIVE_UP_SECONDS)
        produced = a.level().produced
        take(a, epoch, 0, 2 * LANES)
        time.sleep(0.3)
        assert a.level().produced == produced  # the other side is still full: both pause, nobody times out
        take(b, epoch, 0, 2 * LANES)
        until(lambda: a.level().produced > produced)
        assert a.level().sessions == b.level().sessions == 1


def test_no_sample_is_handed_out_twice() -> None:
    with pools() as (a, _, _):
        epoch, _ = a.position(GIVE_UP_SECONDS)
        reservation = a.reserve(epoch, 0, 500)
        first = np.concatenate(list(a.collect(reservation, GIVE_UP_SECONDS)))
        assert first.any()
        with pytest.raises(SessionClosedError, match="before"):
            list(a.collect(reservation, GIVE_UP_SECONDS))
        with pytest.raises(SessionClosedError, match="nothing is used twice"):
            a.reserve(epoch, 499, 10)
        assert not any(len(np.intersect1d(first, chunk)) for _, chunk in a._chunks)


def test_samples_before_a_reservation_are_lost_and_erased() -> None:
    with pools() as (a, _, _):
        until(lambda: a.level().available > LANES)
        epoch, _ = a.position(GIVE_UP_SECONDS)
        chunk = a._chunks[0][1]
        a.reserve(epoch, 300, 100)
        assert not chunk[:300].any()
        assert chunk[300:400].any()
        assert a.level().lost == 300
        assert a.position(GIVE_UP_SECONDS) == (epoch, 400)


def test_reservations_may_be_collected_in_any_order() -> None:
    with pools() as (a, b, _):
        epoch, _ = a.position(GIVE_UP_SECONDS)
        one, two = a.reserve(epoch, 0, 200), a.reserve(epoch, 200, 200)
        second, first = (np.concatenate(list(a.collect(r, GIVE_UP_SECONDS))) for r in (two, one))
        other = take(b, epoch, 0, 400)
        x = (np.concatenate([first, second]) + other).view(np.int64) / 2.0**41
        assert 0.75 < x.std() < 1.25  # 400 samples: 7 deviations


def test_a_lost_session_loses_its_samples_and_another_one_begins() -> None:
    with pools() as (a, b, line):
        until(lambda: a.level().available > LANES and b.level().available > LANES)
        epoch, _ = a.position(GIVE_UP_SECONDS)
        reservation = a.reserve(epoch, 0, 100)
        chunk = a._chunks[0][1]
        line.links[-1].close()
        until(lambda: a.level().sessions == 2 and b.level().sessions == 2)
        with pytest.raises(SessionClosedError, match="gone"):
            list(a.collect(reservation, 5))
        with pytest.raises(SessionClosedError, match="gone"):
            b.reserve(epoch, 0, 100)
        assert not chunk.any()
        new_epoch, start = a.position(GIVE_UP_SECONDS)
        assert new_epoch != epoch
        assert start == 0
        assert a.level().lost > 0
        assert "closed" in str(a.level().last_error)
        x = (take(a, new_epoch, 0, 500) + take(b, new_epoch, 0, 500)).view(np.int64) / 2.0**41
        assert 0.75 < x.std() < 1.25


def test_without_the_other_server_there_is_a_clear_error() -> None:
    with pools(start=False) as (_, b, _), pytest.raises(PeerError, match="no session with the other server"):
        b.start()
        b.position(0.3)


def test_an_abandoned_reservation_does_not_stall_the_pool() -> None:
    with pools(capacity=2 * LANES) as (a, b, _):
        until(lambda: a.level().available > LANES and b.level().available > LANES)
        epoch, _start = a.position(GIVE_UP_SECONDS)
        for pool in (a, b):
            reserved = pool.reserve(epoch, 0, 2 * LANES)
            pieces = pool.collect(reserved, GIVE_UP_SECONDS)
            next(pieces)
            pieces.close()  # type: ignore[attr-defined]
        x = np.zeros(0)
        results: dict[str, np.ndarray] = {}

        def run(name: str, pool: NoisePool) -> None:
            results[name] = take(pool, epoch, 2 * LANES, LANES)

        threads = [threading.Thread(target=run, args=p) for p in (("a", a), ("b", b))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GIVE_UP_SECONDS)
        x = (results["a"] + results["b"]).view(np.int64) / 2.0**41
        assert 0.75 < x.std() < 1.25  # 512 samples: 8 deviations


@pytest.mark.slow
def test_a_position_far_ahead_of_what_was_made_is_refused() -> None:
    with pools() as (a, _, _):
        epoch, _start = a.position(GIVE_UP_SECONDS)
        heard: list[MpcError] = []
        a._cheated = heard.append
        with pytest.raises(PositionError, match="more than a batch"):
            a.reserve(epoch, LANES + 1, 10)
        assert [type(error) for error in heard] == [PositionError]
        fresh, start = a.position(GIVE_UP_SECONDS)  # that session is over: nothing of it is used, and both begin anew
        assert fresh != epoch
        assert start == 0


def test_a_position_within_a_batch_is_waited_for_and_then_taken() -> None:
    with pools() as (a, _, _):
        epoch, _start = a.position(GIVE_UP_SECONDS)
        assert len(take(a, epoch, LANES, 10)) == 10


def test_what_was_agreed_first_is_taken_first_though_its_thread_comes_later() -> None:
    """Two runs on server B: the second's range begins where the first's ends, which is not taken yet."""
    with pools() as (a, _, _):
        epoch, _start = a.position(GIVE_UP_SECONDS)
        second = threading.Thread(target=a.reserve, args=(epoch, 40 * LANES, 5))
        second.start()
        time.sleep(0.05)
        a.reserve(epoch, 0, 40 * LANES)
        second.join(GIVE_UP_SECONDS)
        assert a.position(GIVE_UP_SECONDS) == (epoch, 40 * LANES + 5)


def test_an_idle_pool_outlives_any_number_of_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are exchanges: their steps start over each time, or a full pool would run out of step numbers."""
    monkeypatch.setattr("parley.aggregator.pool.PAUSE_SECONDS", 0.0)
    with pools(capacity=2 * LANES) as (a, b, _):
        until(lambda: a.level().available > LANES and b.level().available > LANES)
        channel = a._channel
        assert channel is not None
        before = channel.traffic.exchanges
        until(lambda: channel.traffic.exchanges > before + 500)
        assert channel._step <= 2
        assert a.level().sessions == 1
