"""What a server keeps of an opening: one row, never a second, and no share longer than it has to."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.aggregator.opening import Contributions
from parley.aggregator.opening_store import ErasedError, Opened, OpeningStore, Phase, RefusedError, Totals
from tests.support.openings import Federation, contributions, request


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
    vectors = [share for side in made for _, share in side.shares.values() if isinstance(share, np.ndarray)]
    assert all(vector.any() for vector in vectors)
    federation.open([request()] * 2, made)
    assert len(vectors) == 2
    assert not any(vector.any() for vector in vectors)
    assert not any(side.shares for side in made)


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


def test_an_ended_run_prepares_nothing_and_an_unsettled_one_does_not_end(tmp_path: Path) -> None:
    store = OpeningStore(tmp_path / "s.sqlite")
    store.prepare(request(), Opened(("a",), b"share", bytes(16)))
    with pytest.raises(RefusedError, match="not settled"):
        store.end("run")
    assert store.ended("run") is None
    store.commit("run", 0)
    with pytest.raises(RefusedError, match="taken back"):
        store.discard("run", 0)
    assert store.end("run") == store.end("run") == store.ended("run") == 1
    with pytest.raises(RefusedError, match="has ended"):
        store.prepare(request(1), Opened(("a",), b"share", bytes(16)))
    with pytest.raises(RefusedError, match="not prepared"):
        store.commit("run", 1)


def test_the_store_stays_as_large_as_two_shares_and_keeps_what_identifies_an_opening(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    store = OpeningStore(path)
    share = b"\x5a" * 40_000
    for index in range(300):
        store.prepare(request(index), Opened(("a",), share, bytes(16)))
        store.commit("run", index)
        assert store.get(request(index)) is not None
    newest = store.find("run", 298)
    assert newest is not None
    assert newest.opened.share == share
    for index in (0, 150, 297):
        found = store.find("run", index)
        assert found is not None
        assert (found.phase, found.erased, found.opened.contributors) == (Phase.committed, True, ("a",))
        assert found.request_digest == request(index).digest()
        with pytest.raises(ErasedError, match=f"share of round {index} is erased"):
            store.get(request(index))
    assert store.end("run") == store.counts("run").mine == 300
    assert [store.find("run", index).erased for index in (298, 299)] == [True, False]  # type: ignore[union-attr]
    store.close()
    # Four shares at most, and a few hundred bytes a round.
    assert path.stat().st_size < 4 * len(share) + 300 * 600
    assert path.read_bytes().count(share[:256]) <= 2 * len(share) // 256


def test_a_prepared_share_is_never_erased(tmp_path: Path) -> None:
    """Nothing of what crashes leave behind is touched: only a committed round has been handed out."""
    store = OpeningStore(tmp_path / "s.sqlite")
    for index in range(3):
        store.prepare(request(index), Opened(("a",), b"share", bytes(16)))
    found = store.find("run", 0)
    assert found is not None
    assert (found.phase, found.erased) == (Phase.prepared, False)
    store.close()


def test_totals_count_what_was_committed_and_who_is_in_it(tmp_path: Path) -> None:
    store = OpeningStore(tmp_path / "s.sqlite")
    assert store.totals("run") == Totals(0, 0, {})
    for index, parties in enumerate((("a", "b"), ("b",), ("a",))):
        store.prepare(replace(request(), round=index), Opened(parties, b"share", bytes(16)))
        if index < 2:
            store.commit("run", index)
    assert store.totals("run") == Totals(2, 2 * request().dimension, {"a": 1, "b": 2})
    store.close()
