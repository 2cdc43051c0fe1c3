"""Every SQLite file of a node is opened here, with one behaviour: the strictest that any of them asks for.

Ledger, admissions, outbox, openings and runs. It lies in this room because the ledger does, below all that open one.
Mode 600, also of its log and of files of an earlier version; a write-ahead log, so that others may read meanwhile;
synchronous FULL, so that a transaction that has ended is on the disk.
"""

import contextlib
import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.privacy.durable import PRIVATE

BUSY_SECONDS = 60.0
"""How long another process's transaction is waited for."""
PAGE_BYTES = 8192
"""Of a new file with large rows: half the frames for each."""


class NoLogError(sqlite3.OperationalError):
    """SQLite has no write-ahead log there, as on a network's disk."""


def opened(path: Path, large_rows: bool = False, erasing: bool = False, any_thread: bool = True) -> sqlite3.Connection:
    """Made where there is none; `erasing` overwrites what is deleted. An OSError or a sqlite3.Error says why not."""
    path = Path(os.path.realpath(path))  # a link may lead to where nothing is yet: what is made there is private too
    # A file that is there is not opened here: to close it again would drop what this process's connections have locked.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
    close_to_others(path, "", "-wal", "-shm")
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=not any_thread)
    try:
        if large_rows:
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        if database.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise NoLogError("lies where SQLite has no write-ahead log: move it to a local disk")
        database.execute("PRAGMA synchronous = FULL")
        if erasing:
            database.execute("PRAGMA secure_delete = ON")
    except BaseException:
        database.close()
        raise
    return database


def opened_to_read(path: Path) -> sqlite3.Connection:
    """Beside its writers: nothing is made, and nothing can be written."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def close_to_others(path: Path, *endings: str) -> None:
    """Files that are there; SQLite gives a new log the mode of the file itself."""
    for ending in endings:
        held = path.with_name(path.name + ending)
        try:
            if stat.S_IMODE(held.stat().st_mode) & 0o077:
                held.chmod(PRIVATE)
        except FileNotFoundError:
            continue


def made_of(database: sqlite3.Connection, schema: str) -> None:
    """Its tables, in the caller's transaction."""
    for statement in schema.split(";")[:-1]:
        database.execute(statement)


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; one writer at a time, over all processes."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def row_seal(label: str, *values: bytes | str | int) -> bytes:
    """By which a damaged disk is noticed: SHA-256 over every value of a row, its kind and its length."""
    found = hashlib.sha256(f"parley {label}\n".encode())
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        found.update(f"{type(value).__name__} {len(data)}\n".encode())
        found.update(data)
    return found.digest()
