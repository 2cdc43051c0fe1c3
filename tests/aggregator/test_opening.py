"""Opening a sum: once, over an agreed set, with noise that is never the same; stored before it is seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.aggregator.opening import Aggregator, RolledBackError, RoundLostError, TooFewError
from parley.aggregator.opening_store import Counts, Opened, OpeningStore, Phase, RefusedError
from parley.aggregator.request import Request
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.errors import FrameError, MpcError
from parley.mpc.ring import Lattice
from tests.support.openings import DIMENSION, LATTICE, Federation, contributions, request
from tests.support.until import GIVE_UP_SECONDS


class DiedError(MpcError):
    """A process that is killed, as far as a store can tell."""


class DyingStore(OpeningStore):
    """Dies before or after one durable step."""

    def __init__(self, path: Path, point: str) -> None:
        super().__init__(path)
        self.point = point

    def prepare(self, request: Request, opened: Opened, seen: int = 0) -> None:
        if self.point == "preparing":
            raise DiedError("before it was prepared")
        super().prepare(request, opened, seen)
        if self.point == "prepared":
            raise DiedError("when it was prepared")

    def commit(self, run: str, round_index: int) -> None:
        if self.point == "committing":
            raise DiedError("before it was committed")
        super().commit(run, round_index)
        if self.point == "committed":
            raise DiedError("when it was committed")

    def discard(self, run: str, round_index: int) -> None:
        super().discard(run, round_index)
        if self.point == "discarded":
            raise DiedError("when it was discarded")


def opened_value(results: list[Opened]) -> np.ndarray[Any, Any]:
    return LATTICE.decode(LATTICE.open(*(np.frombuffer(result.share, np.uint64) for result in results)))


def test_the_sum_comes_out_with_noise_of_the_right_size(federation: Federation) -> None:
    results = federation.open([request()] * 2, contributions({"a": 10.0, "b": -4.0, "c": 0.5}))
    value = opened_value(results)
    assert results[0].contributors == results[1].contributors == ("a", "b", "c")
    noise = value - 6.5
    assert abs(noise.mean()) < 6 * 2 / DIMENSION**0.5
    assert 2 * (1 - 6 / (2 * DIMENSION) ** 0.5) < noise.std() < 2 * (1 + 6 / (2 * DIMENSION) ** 0.5)


def test_one_servers_reply_is_uniform_in_the_opened_range(federation: Federation) -> None:
    results = federation.open([request()] * 2, contributions({"a": 10.0, "b": 0.0}))
    for result in results:
        words = np.frombuffer(result.share, np.uint64)
        assert (words >> np.uint64(LATTICE.opening_bits) == 0).all()
        top = words >> np.uint64(LATTICE.opening_bits - 3)
        counts = np.bincount(top.astype(np.int64), minlength=8)
        assert ((counts - DIMENSION / 8) ** 2 / (DIMENSION / 8)).sum() < 45  # chi2 of 7: 1.4e-7


def test_opening_again_returns_the_stored_bytes_and_uses_no_noise(federation: Federation) -> None:
    first = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    used = [pool.level().used for pool in federation.noise]
    for restart in (False, True):
        if restart:
            federation.restart(0)
            federation.restart(1)
        again = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
        assert again == first
        other_set = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0, "c": 5.0}))
        assert other_set == first  # a second set for the round cannot be opened
    assert [pool.level().used for pool in federation.noise] == used


@pytest.mark.parametrize(
    "changes",
    [{"lattice": Lattice(1.0, 16)}, {"minimum_parties": 1}, {"dimension": 299}, {"query": b"other"}],
    ids=["sigma", "parties", "d", "query"],
)
def test_the_same_round_with_other_parameters_is_refused(federation: Federation, changes: dict[str, Any]) -> None:
    federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    results = federation.open([request(**changes)] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RefusedError) for result in results)
    assert "opens once" in str(results[0])


def test_servers_that_were_asked_different_things_refuse(federation: Federation) -> None:
    asked = [request(), request(lattice=Lattice(1.5, 16))]
    results = federation.open(asked, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RefusedError) for result in results)
    assert [pool.level().used for pool in federation.noise] == [0, 0]


def test_only_parties_whose_same_upload_reached_both_servers_count(federation: Federation) -> None:
    made = contributions({"a": 1.0, "b": 2.0, "c": 30.0, "d": 400.0})
    del made[0].shares["c"]
    digest, vector = made[1].shares["d"]
    made[1].shares["d"] = (digest + b"other", vector)
    results = federation.open([request()] * 2, made)
    assert results[0].contributors == ("a", "b")
    assert abs(opened_value(results).mean() - 3) < 1


def test_too_few_parties_open_nothing(federation: Federation) -> None:
    results = federation.open([request()] * 2, contributions({"a": 1.0}))
    assert all(isinstance(result, RefusedError) for result in results)
    assert "needs 2" in str(results[0])
    assert [pool.level().used for pool in federation.noise] == [0, 0]
    none = federation.open([request(1)] * 2, contributions({}))
    assert all(isinstance(result, RefusedError) for result in none)


@pytest.mark.parametrize("role", [0, 1], ids=["A", "B"])
def test_who_refuses_once_the_place_is_agreed_on_stays_beside_the_other_in_the_noise(
    federation: Federation, role: int
) -> None:
    """A run that one operator has withdrawn takes its place on the other server: nobody has cheated."""
    accused: list[Exception] = []
    for pool in federation.noise:
        pool._cheated = accused.append
        pool.position(GIVE_UP_SECONDS)

    def withdrawn(again: int) -> None:
        raise RefusedError("the run is withdrawn here")

    for index in (0, 1):  # together more than a batch
        made, asked = contributions({"a": 1.0, "b": 2.0}), request(index)
        results = federation._both(
            lambda aggregator, channel, at, asked=asked, made=made: aggregator.open(  # type: ignore[misc]
                channel, asked, made[at], *([withdrawn] if at == role else [])
            )
        )
        assert "withdrawn" in str(results[role])
    made = contributions({"a": 1.0, "b": 2.0})
    results = federation.open([request(2)] * 2, made)
    assert not accused
    assert abs(opened_value(results).mean() - 3) < 1
    assert [pool.level().sessions for pool in federation.noise] == [1, 1]


def test_a_result_lost_by_one_server_is_never_noised_again(federation: Federation) -> None:
    federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    federation.stores[1]._database.execute("DELETE FROM openings")  # as a machine restored from an old snapshot
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RoundLostError) for result in results)


def test_rounds_have_fresh_noise(federation: Federation) -> None:
    values = [
        opened_value(federation.open([request(t)] * 2, contributions({"a": 1.0, "b": 2.0}))) - 3.0 for t in range(3)
    ]
    for i in range(3):
        for j in range(i):
            assert abs(np.corrcoef(values[i], values[j])[0, 1]) < 6 / DIMENSION**0.5


def test_one_round_is_opened_once_at_a_time(federation: Federation) -> None:
    """A second call for a round that is being opened is refused at once; the first goes on."""
    aggregator = Aggregator(0, federation.noise[0], federation.stores[0], timeout_seconds=10)
    aggregator._busy.add("run")
    with pytest.raises(RefusedError, match="is being opened"):
        aggregator.open(Channel(MemoryLink.pair()[0], 1), request(), contributions({"a": 1.0, "b": 2.0})[0])


def test_shares_of_different_openings_are_never_handed_out_as_one(federation: Federation) -> None:
    federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    row = federation.stores[1]._row("openings", request().run, request().round)
    assert row is not None
    federation.stores[1]._write("openings", *row[:-1], bytes(16), how="INSERT OR REPLACE")
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RoundLostError) for result in results)


@pytest.mark.parametrize("which", ["mine", "seen"])
def test_counts_that_no_disk_could_hold_are_refused_as_a_frame(federation: Federation, which: str) -> None:
    """SQLite has 63 bits, a hello 64: what cannot be stored must not be what a round's noise is spent on."""
    real = federation.stores[1].counts
    federation.stores[1].counts = lambda run: replace(real(run), **{which: 1 << 63})  # type: ignore[method-assign]
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert isinstance(results[0], FrameError), results[0]
    assert federation.stores[0].wasted("run", 0) == 0


def test_a_server_wired_to_itself_opens_nothing(federation: Federation) -> None:
    class Echo:
        def __init__(self) -> None:
            self.last = b""

        def send(self, frame: bytes | bytearray | memoryview) -> None:
            self.last = bytes(frame)

        def receive(self, deadline: float) -> bytes:
            return self.last

        def close(self) -> None:
            pass

    aggregator = Aggregator(0, federation.noise[0], federation.stores[0], timeout_seconds=10)
    with pytest.raises(FrameError, match="claim role 0"):
        aggregator.open(Channel(Echo(), 1), request(), contributions({"a": 1.0, "b": 2.0})[0])
    assert federation.noise[0].level().used == 0


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("point", ["preparing", "prepared", "committing", "committed"])
def test_after_a_crash_of_either_server_there_is_one_opening(federation: Federation, role: int, point: str) -> None:
    made = {"a": 1.0, "b": 2.0}
    federation.open([request()] * 2, contributions(made))
    federation.stores[role].close()
    federation.stores[role] = DyingStore(federation.folder / f"{role}.sqlite", point)
    crashed = federation.open([request(1)] * 2, contributions(made))
    assert isinstance(crashed[role], DiedError)
    federation.restart(role)
    settled = federation.settle(1)
    assert not any(isinstance(result, MpcError) for result in settled), settled
    results = federation.open([request(1)] * 2, contributions(made))
    assert results[0].opening == results[1].opening
    assert abs(opened_value(results).mean() - 3) < 1
    if isinstance(crashed[1 - role], Opened):  # it was released before: nothing else may come of it
        assert results[1 - role] == crashed[1 - role]
    if point != "preparing" or settled[0] is not None:
        assert settled == results or settled == [None, None]
    assert federation.open([request(1)] * 2, contributions(made)) == results
    federation.open([request(2)] * 2, contributions(made))
    assert [store.counts("run").mine for store in federation.stores] == [3, 3]


def test_a_crash_in_the_midst_of_recovery_changes_nothing(federation: Federation) -> None:
    federation.stores[1].close()
    federation.stores[1] = DyingStore(federation.folder / "1.sqlite", "preparing")
    federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    federation.restart(1)
    federation.stores[0].close()
    federation.stores[0] = DyingStore(federation.folder / "0.sqlite", "discarded")
    assert isinstance(federation.settle()[0], DiedError)
    federation.restart(0)
    assert federation.settle() == [None, None]
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert abs(opened_value(results).mean() - 3) < 1


def test_a_prepared_share_is_discarded_and_noised_anew_when_the_other_has_none(federation: Federation) -> None:
    """Also within one opening, without a settlement before it; with noise that was never used."""
    federation.stores[1].close()
    federation.stores[1] = DyingStore(federation.folder / "1.sqlite", "preparing")
    federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    first = federation.stores[0].find("run", 0)
    assert first is not None
    assert first.phase is Phase.prepared
    federation.restart(1)
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert results[0].opening != first.opened.opening
    assert results[0].share != first.opened.share


def test_a_prepared_share_never_leaves(federation: Federation) -> None:
    federation.stores[1].close()
    federation.stores[1] = DyingStore(federation.folder / "1.sqlite", "preparing")
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, MpcError) for result in results)


@pytest.mark.parametrize("role", [0, 1])
def test_a_server_with_fewer_commits_than_it_has_told_is_refused(federation: Federation, role: int) -> None:
    for index in range(3):
        federation.open([request(index)] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert [store.counts("run") for store in federation.stores] == [Counts(3, 2)] * 2
    for table in ("openings", "commits"):
        federation.stores[role]._database.execute(f"DELETE FROM {table} WHERE round > 0")
    federation.stores[role]._write("counts", request().run, 1, 0, how="INSERT OR REPLACE")
    results = federation.open([request(3)] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RolledBackError) for result in results), results
    assert all(isinstance(result, RolledBackError) for result in federation.settle(3))


def test_too_few_are_named(federation: Federation) -> None:
    results = federation.open([request(minimum_parties=3)] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert [result.parties for result in results if isinstance(result, TooFewError)] == [("a", "b")] * 2
