"""A copy of a database by a closed list, while somebody writes to it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.node.backup_copy import Database, Table, copy_database
from parley.node.backup_key import BackupError
from parley.privacy.store import opened

LISTED = Database(
    {"kept": Table("id open secret", "secret", lambda row: row | {"open": row["open"] + "!"})}, {"gone": "a secret"}
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.sqlite"
    with closing(opened(path)) as database:
        database.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, open TEXT, secret BLOB) STRICT")
        database.execute("CREATE TABLE gone (secret BLOB) STRICT")
        database.execute("CREATE TRIGGER never BEFORE DELETE ON kept BEGIN SELECT RAISE(ABORT, 'no'); END")
        database.execute("INSERT INTO kept VALUES (3, 'c', x'5ec4e7'), (1, 'a', x'5ec4e7')")
        database.execute("INSERT INTO gone VALUES (x'5ec4e7')")
        database.execute("PRAGMA user_version = 7")
    return path


def test_what_is_not_on_the_list_was_never_in_the_copy(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO kept VALUES (9, 'late', NULL)")
        copy_database(source, copy, LISTED)
        writer.execute("ROLLBACK")
    assert b"\x5e\xc4\xe7" not in copy.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT * FROM kept ORDER BY id").fetchall() == [(1, "a!", None), (3, "c!", None)]
        assert database.execute("SELECT COUNT(*) FROM gone").fetchone() == (0,)
        assert database.execute("PRAGMA user_version").fetchone() == (7,)
        with pytest.raises(sqlite3.IntegrityError, match="no"):
            database.execute("DELETE FROM kept")


@pytest.mark.parametrize(
    "listed",
    [
        Database({"kept": Table("id open secret")}),
        Database({"kept": Table("id open")}, {"gone": ""}),
        Database({"kept": Table("id open secret more")}, {"gone": ""}),
    ],
    ids=["a table", "a column", "a column that is gone"],
)
def test_what_nobody_has_decided_about_stops_it(source: Path, tmp_path: Path, listed: Database) -> None:
    with pytest.raises(BackupError, match=r"source\.sqlite"):
        copy_database(source, tmp_path / "copy.sqlite", listed)


def test_a_database_that_is_damaged_stops_it(source: Path, tmp_path: Path) -> None:
    source.write_bytes(b"no database" * 1000)
    with pytest.raises(BackupError, match="cannot be copied"):
        copy_database(source, tmp_path / "copy.sqlite", LISTED)
