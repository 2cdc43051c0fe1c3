"""Opening a sum: once, over an agreed set, with noise that is never the same; stored before it is seen."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.aggregate import Aggregator, Contributions, RolledBackError, RoundLostError, TooFewError
from mpc.channel import Channel, MemoryLink
from mpc.errors import ConfigurationError, FrameError, MpcError, RangeError
from mpc.openings import Counts, Opened, OpeningStore, Phase, RefusedError
from mpc.pool import NoisePool
from mpc.request import Request
from mpc.ring import Lattice, share
from tests.mpc.test_pool import pools

DIMENSION = 300
LATTICE = Lattice(2.0, 16)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator["Federation"]:
    with pools() as (a, b, _):
        yield Federation(tmp_path, [a, b])


class Federation:
    """Two aggregators with durable stores."""

    def __init__(self, folder: Path, noise: list[NoisePool]) -> None:
        self.folder, self.noise = folder, noise
        self.stores = [OpeningStore(folder / f"{role}.sqlite") for role in (0, 1)]

    def restart(self, role: int) -> None:
        self.stores[role].close()
        self.stores[role] = OpeningStore(self.folder / f"{role}.sqlite")

    def open(self, requests: list[Request], contributions: list[Contributions]) -> list[Any]:
        """What each server returns or raises."""
        results: list[Any] = [None, None]
        channels = [Channel(link, 10) for link in MemoryLink.pair()]

        def go(role: int) -> None:
            try:
                aggregator = Aggregator(role, self.noise[role], self.stores[role], timeout_seconds=10)
                results[role] = aggregator.open(channels[role], requests[role], contributions[role])
            except MpcError as error:
                results[role] = error
                channels[role].close("test")

        threads = [threading.Thread(target=go, args=(role,)) for role in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        return results


def request(round_number: int = 0, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "dimension": DIMENSION,
        "lattice": LATTICE,
        "minimum_parties": 2,
        "most_records": 100,
        "clip": 1000.0,
    }
    return Request("run", round_number, **{**fields, **changes})


def contributions(parties: dict[str, float], both: bool = True) -> list[Contributions]:
    """The same uploads on both servers."""
    made = [Contributions(DIMENSION), Contributions(DIMENSION)]
    for i, (party, value) in enumerate(parties.items()):
        values, seed = LATTICE.encode(np.full(DIMENSION, value)), bytes([i + 1]) * 32
        made[0].add(party, party.encode(), share(values, seed))
        made[1].add(party, party.encode(), seed)
    return made


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


def test_contributions_are_idempotent_and_refuse_a_second_upload() -> None:
    made = Contributions(4)
    vector = np.arange(4, dtype=np.uint64)
    made.add("a", b"one", vector)
    made.add("a", b"one", vector)
    with pytest.raises(RefusedError, match="something else"):
        made.add("a", b"two", vector)
    for bad in (np.zeros(5, np.uint64), np.zeros(4, np.int64), np.zeros((2, 2), np.uint64)):
        with pytest.raises(RefusedError, match="was due"):
            made.add("b", b"x", bad)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="one line"):
        made.add("two\nlines", b"x", vector)
    made.erase()
    assert not made.shares
    assert not vector.any()


def test_shares_are_erased_once_the_result_is_stored(federation: Federation) -> None:
    made = contributions({"a": 1.0, "b": 2.0})
    vectors = [vector for side in made for _, vector in side.shares.values()]
    federation.open([request()] * 2, made)
    assert not any(vector.any() for vector in vectors)


def test_the_store_refuses_a_second_row_whatever_happens(tmp_path: Path) -> None:
    store = OpeningStore(tmp_path / "s.sqlite")
    store.prepare(request(), Opened(("a",), b"share", bytes(16)))
    with pytest.raises(RefusedError, match="open already"):
        store.prepare(request(), Opened(("a",), b"other", bytes(16)))
    found = store.get(request())
    assert found is not None
    assert (found.phase, found.opened) == (Phase.prepared, Opened(("a",), b"share", bytes(16)))
    store.close()
    settings = sqlite3.connect(tmp_path / "s.sqlite")
    assert settings.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_senseless_request_is_refused() -> None:
    for changes in ({"dimension": 0}, {"minimum_parties": 0}):
        with pytest.raises(ConfigurationError):
            request(**changes).digest()
    with pytest.raises(ConfigurationError):
        request(-1).digest()


def test_a_lattice_of_another_preset_is_refused_before_anything_is_sent(federation: Federation) -> None:
    """Noise of a pool of scale 2^41 read as scale 2^47 would be 64 times too small."""
    wrong = request(lattice=Lattice(2.0, 16, 47))
    results = federation.open([wrong] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RefusedError) for result in results)
    assert "same preset" in str(results[0])
    assert [pool.level().used for pool in federation.noise] == [0, 0]


def test_a_sum_that_could_leave_the_ring_is_refused(federation: Federation) -> None:
    results = federation.open([request(most_records=10**9)] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RangeError) for result in results)


def test_one_round_is_opened_once_at_a_time(federation: Federation) -> None:
    """A second call for a round that is being opened is refused at once; the first goes on."""
    aggregator = Aggregator(0, federation.noise[0], federation.stores[0], timeout_seconds=10)
    aggregator._busy.add("run")
    with pytest.raises(RefusedError, match="is being opened"):
        aggregator.open(Channel(MemoryLink.pair()[0], 1), request(), contributions({"a": 1.0, "b": 2.0})[0])


def test_shares_of_different_openings_are_never_handed_out_as_one(federation: Federation) -> None:
    federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    federation.stores[1]._database.execute("UPDATE openings SET opening = zeroblob(16)")
    results = federation.open([request()] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RoundLostError) for result in results)


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
