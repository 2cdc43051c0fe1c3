"""A consistent copy of a node's database while the node runs: of the tables and columns on a closed list, row by row.

One read transaction sees one moment. What is not copied was never in the copy's file, so that no freed page and no log
has it. A table or column that is on neither side of the list stops the backup: somebody has to decide about it first.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.node.backup_key import BackupError
from parley.privacy.durable import PRIVATE
from parley.privacy.store import opened_to_read

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """What is copied of a table."""

    columns: str
    """All of them, by name."""
    left_out: str = ""
    """Those that are NULL in the copy."""
    change: Callable[[Row], Row] = lambda row: row
    """Of each row, once these are NULL: such as a digest over what is left."""


@dataclass(frozen=True)
class Database:
    """What is copied of a database."""

    tables: Mapping[str, Table]
    """By name. None at all stands for every table, whatever its columns."""
    left_out: Mapping[str, str] | None = None
    """Tables that the copy has without a row, and why."""


def copy_database(source: Path, target: Path, listed: Database) -> None:
    """A new file, mode 600; a BackupError where the source has what the list has not."""
    target.touch(PRIVATE, exist_ok=False)
    try:
        with closing(opened_to_read(source)) as read, closing(sqlite3.connect(target, isolation_level=None)) as write:
            read.execute("BEGIN")
            write.execute(f"PRAGMA page_size = {read.execute('PRAGMA page_size').fetchone()[0]}")
            write.execute("BEGIN")
            _copy(read, write, source.name, listed)
            write.execute(f"PRAGMA user_version = {read.execute('PRAGMA user_version').fetchone()[0]}")
            write.execute("COMMIT")
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"{source.name} cannot be copied ({error}): `parley doctor` may say why") from None


def _copy(read: sqlite3.Connection, write: sqlite3.Connection, name: str, listed: Database) -> None:
    entries = read.execute("SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid").fetchall()
    for kind, table, sql in entries:
        if kind != "table" or table.startswith("sqlite_"):
            continue
        columns = [row[1] for row in read.execute(f'PRAGMA table_info("{table}")')]
        write.execute(sql)
        if table in (listed.left_out or {}):
            continue
        known = listed.tables.get(table)
        if known is None and listed.tables:
            raise BackupError(f"{name} has the table {table!r}, of which no backup knows: upgrade parley")
        if known is not None and set(columns) != set(known.columns.split()):
            strange = sorted(set(columns) ^ set(known.columns.split()))
            raise BackupError(f"{name} differs in {table}.{strange[0]} from what a backup knows: upgrade parley")
        _rows(read, write, table, columns, known)
    for kind, _, sql in entries:
        if kind != "table":
            write.execute(sql)


def _rows(
    read: sqlite3.Connection, write: sqlite3.Connection, table: str, columns: list[str], known: Table | None
) -> None:
    marks = ", ".join("?" * len(columns))
    gone = set(known.left_out.split()) if known is not None else set()
    asked = ", ".join("NULL" if each in gone else f'"{each}"' for each in columns)
    named = ", ".join(f'"{each}"' for each in columns)
    for values in read.execute(f'SELECT {asked} FROM "{table}" ORDER BY rowid'):
        row = dict(zip(columns, values, strict=True))
        if known is not None:
            row = known.change(row)
        write.execute(f'INSERT INTO "{table}" ({named}) VALUES ({marks})', [row[each] for each in columns])
