"""A store of openings that comes from a backup: what is lost by that, and what is signed of what is not."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.aggregator.opening_store import DamagedError, Opened, OpeningStore
from parley.aggregator.restorable import Restored
from tests.support.openings import request

ONE, OTHER = bytes([1] * 16), bytes([2] * 16)


def opened(store: OpeningStore, run: str = "run") -> None:
    made = request()
    object.__setattr__(made, "run", run)
    store.prepare(made, Opened(("a", "b"), b"share", bytes(16)))
    store.commit(run, 0)


def test_what_had_not_ended_is_lost_and_what_had_keeps_its_word(tmp_path: Path) -> None:
    with closing(OpeningStore(tmp_path / "s")) as store:
        opened(store, "over")
        store.end("over")
        opened(store, "open")
        assert store.put_back(ONE, 10, 20, ["over", "open", "admitted"]) == ["admitted", "open"]
        assert [store.lost(run) for run in ("over", "open", "admitted", "later")] == [False, True, True, False]
        assert [store.word(run) for run in ("over", "later")] == [b"", ONE]
        opened(store, "later")
        store.end("later")
        assert store.put_back(OTHER, 30, 40, ["later", "open"]) == []
        assert [store.word(run) for run in ("over", "later", "newest")] == [b"", ONE, OTHER]
        assert store.restorations() == [Restored(ONE, 10, 20), Restored(OTHER, 30, 40)]
    with closing(OpeningStore(tmp_path / "s")) as again:
        assert again.lost("open")


def test_no_share_outlives_it(tmp_path: Path) -> None:
    with closing(OpeningStore(tmp_path / "s")) as store:
        opened(store)
        store.put_back(ONE, 10, 20, [])
        found = store.find("run", 0)
        assert found is not None
        assert found.erased


def test_a_row_that_is_not_what_was_written_is_noticed(tmp_path: Path) -> None:
    with closing(OpeningStore(tmp_path / "s")) as store:
        store.put_back(ONE, 10, 20, [])
    with closing(sqlite3.connect(tmp_path / "s")) as database:
        database.execute("UPDATE restored SET made = 15")
        database.commit()
    with closing(OpeningStore(tmp_path / "s")) as store, pytest.raises(DamagedError):
        store.restorations()


def test_a_store_of_the_version_before_gets_its_tables(tmp_path: Path) -> None:
    with closing(OpeningStore(tmp_path / "s")) as store:
        opened(store)
    with closing(sqlite3.connect(tmp_path / "s")) as database:
        for table in ("restored", "lost", "settled"):
            database.execute(f"DROP TABLE {table}")
        database.execute("PRAGMA user_version = 2")
        database.commit()
    with closing(OpeningStore(tmp_path / "s")) as store:
        assert store.restorations() == []
        assert store.word("run") == b""
        assert store.counts("run").mine == 1
