"""The one opener of SQLite files."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from parley.privacy.store import NoLogError, opened, opened_to_read, transaction


def modes(path: Path) -> set[int]:
    return {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}


def test_what_is_opened_is_private_logged_ahead_and_on_disk_when_a_transaction_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(opened(path, large_rows=True, erasing=True)) as database:
        with transaction(database):
            database.execute("CREATE TABLE t (x)")
        settings = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in
                    ("journal_mode", "synchronous", "secure_delete", "page_size", "busy_timeout")]  # fmt: skip
        assert settings == ["wal", 2, 1, 8192, 60_000]
        assert len(list(tmp_path.iterdir())) == 3
        assert modes(path) == {0o600}


def test_what_was_open_to_others_is_closed_to_them_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(opened(path)) as first:
        first.execute("CREATE TABLE t (x)")
        for each in tmp_path.iterdir():
            each.chmod(0o644)
        with closing(opened(path)):
            assert modes(path) == {0o600}


def test_a_link_to_a_file_that_is_not_there_yet_is_private_where_it_leads(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    link = tmp_path / "a.sqlite"
    link.symlink_to(disk / "a.sqlite")
    for _ in range(2):
        with closing(opened(link)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS t (x)")
            assert len(list(disk.iterdir())) == 3
            assert modes(disk / "a.sqlite") == {0o600}
            for each in disk.iterdir():
                each.chmod(0o644)


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "a.sqlite")) as database:
        database.execute("CREATE TABLE t (x)")
        with pytest.raises(ZeroDivisionError), transaction(database):
            database.execute("INSERT INTO t VALUES (1)")
            raise ZeroDivisionError
        assert database.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)
        assert not database.in_transaction


def test_who_only_reads_makes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        opened_to_read(tmp_path / "b.sqlite").execute("SELECT 1")
    assert not list(tmp_path.iterdir())
    path = tmp_path / "a.sqlite"
    with closing(opened(path)) as database, closing(opened_to_read(path)) as reader:
        database.execute("CREATE TABLE t (x)")
        assert reader.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("INSERT INTO t VALUES (1)")


def test_a_place_without_a_write_ahead_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **settings: connect(":memory:", **settings))
    with pytest.raises(NoLogError, match="move it to a local disk"):
        opened(tmp_path / "a.sqlite")
