"""A durable append-only list of entries, each holding the digest of the one before.

SQLite in WAL mode with synchronous=FULL: entries are on disk when `writing` ends, but for light ones where its caller
asks for less. Triggers forbid every statement but an insert at the end; against a hand on the file there is the chain:
an edit, a gap or a reordering breaks a digest. A cut tail breaks none, so the newest digest is also kept beside the
ledger, in `<ledger>.head`, and may lag by the one entry of a crash, and by light ones. Both files put back together to
an old state show only against an anchor that somebody else kept (`verify`). Every file of it is mode 600.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from parley.privacy.canonical import canonical_json
from parley.privacy.durable import PRIVATE, replace_durably
from parley.privacy.errors import LedgerCorruptError, LedgerRefusedError
from parley.privacy.head import GENESIS, START, Head
from parley.privacy.layouts import LEDGER, layout_of, require_known, stamp
from parley.privacy.store import NoLogError, close_to_others, opened

SCHEMA = (
    """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, digest TEXT NOT NULL UNIQUE
) STRICT""",
    """CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entries_never_go BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    # INSERT OR REPLACE deletes without firing the trigger above, so an insert must not meet an existing row at all.
    f"""CREATE TRIGGER entries_append BEFORE INSERT ON entries
WHEN NEW.sequence IS NOT (SELECT COALESCE(MAX(sequence), 0) + 1 FROM entries)
  OR NEW.previous IS NOT COALESCE((SELECT digest FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}')
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    sequence: int
    kind: str
    body: dict[str, Any]
    digest: str


def entry_digest(previous: str, sequence: int, kind: str, body: str) -> str:
    """SHA-256 over everything that the entry says and where it says it."""
    return hashlib.sha256(canonical_json(["parley-ledger-1", previous, sequence, kind, body]).encode()).hexdigest()


class Chain:
    """The list of entries. One instance per process and thread; several processes may share a file."""

    def __init__(self, path: Path, light: frozenset[str] = frozenset()) -> None:
        """`light` are kinds of entries that the head beside the file may lag behind by any number: see `writing`."""
        self.path, self._light, self._head_due = path, light, False
        self._forcing = True
        """Whether a commit waits for the disk."""
        self._head_path = path.with_name(path.name + ".head")
        self._lock: TextIO | None = None
        try:
            close_to_others(path, ".head", ".lock", ".salt")
            self._connection = opened(path, any_thread=False)
            require_known(self._connection, LEDGER)
        except NoLogError as error:
            raise LedgerRefusedError(f"{path.name} {error}") from None
        except OSError as error:
            raise LedgerRefusedError(f"{path.name} cannot be opened ({error.strerror}): run as its owner") from None
        except sqlite3.DatabaseError as error:
            raise LedgerCorruptError(
                f"{path.name} cannot be read as a ledger ({error}): restore it from a backup"
            ) from None

    @classmethod
    def create(
        cls, path: Path, kind: str, body: Callable[[], dict[str, Any]], light: frozenset[str] = frozenset()
    ) -> "Chain":
        """A new chain with its first entry. A creation that a crash cut short may be repeated, nothing else may.

        `body` is called once it is known that there is nothing yet, with other creators kept out.
        """
        head_path = path.with_name(path.name + ".head")
        with _locked(path):
            fresh = not path.exists() and not head_path.exists()
            if not fresh and not (head_path.exists() and head_path.read_text() == f"{START}\n"):
                raise LedgerRefusedError(f"{path.name} exists already: open it, or choose another path")
            # The mark of an unfinished creation is durable before the ledger is there at all.
            replace_durably(head_path, f"{START}\n")
            first = body()
            chain = cls(path, light)
            chain._connection.execute("BEGIN IMMEDIATE")
            if not chain._connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                for statement in SCHEMA:
                    chain._connection.execute(statement)
                stamp(chain._connection, LEDGER)
            chain._connection.execute("COMMIT")
        with chain.writing():
            if chain._last() == START:
                chain._insert(kind, first)
        return chain

    @classmethod
    def open(cls, path: Path, light: frozenset[str] = frozenset()) -> "Chain":
        """An existing chain."""
        if not path.is_file():
            raise LedgerRefusedError(f"no ledger at {path.name}: create one first, or correct the path")
        return cls(path, light)

    def stamp(self) -> None:
        """That it is of today's layout, where it is and the file does not say so."""
        if layout_of(self._connection) != LEDGER.newest:
            stamp(self._connection, LEDGER)

    @classmethod
    def rewrite(cls, path: Path, first: Callable[[Entry, Head], dict[str, Any] | None], light: frozenset[str]) -> None:
        """Write the chain again with another first entry, if `first` gives one for today's and the newest head.

        Every later entry stays word for word and gets a new digest; what was there is overwritten on the disk. One
        transaction: a crash leaves the old chain, or the new one beside the old head, which `verify` knows by `former`.
        """
        with contextlib.closing(cls.open(path, light)) as chain, chain._locked():
            held = list(chain.entries())
            if not held:
                raise LedgerCorruptError("the ledger is empty: restore it from a backup")
            body = first(held[0], Head(held[-1].sequence, held[-1].digest))
            if body is None:
                return
            try:
                chain._replace([(held[0].kind, body), *((each.kind, each.body) for each in held[1:])])
            except sqlite3.Error as error:
                raise LedgerRefusedError(
                    f"the ledger cannot be migrated ({error}): free the disk or the lock"
                ) from None
            chain._force()
            chain._write_head(chain._last())

    def _replace(self, entries: list[tuple[str, dict[str, Any]]]) -> None:
        """All entries by these."""
        execute = self._connection.execute
        execute("PRAGMA secure_delete = ON")
        execute("BEGIN IMMEDIATE")
        try:
            for name in ("entries_never_change", "entries_never_go", "entries_append"):
                execute(f"DROP TRIGGER {name}")
            execute("DELETE FROM entries")
            for statement in SCHEMA[1:]:
                execute(statement)
            last = START
            for kind, body in entries:
                sequence, text = last.sequence + 1, canonical_json(body)
                digest = entry_digest(last.digest, sequence, kind, text)
                execute(
                    "INSERT INTO entries (sequence, kind, body, previous, digest) VALUES (?, ?, ?, ?, ?)",
                    (sequence, kind, text, last.digest, digest),
                )
                last = Head(sequence, digest)
            execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                execute("ROLLBACK")
        execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # what was there is gone from the log, too

    def close(self) -> None:
        """Release the files."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def writing(self, lasting: bool = True) -> Iterator[None]:
        """One writer at a time, over all processes, from reading the state to the committed entry and its head.

        Light entries do not move the head: what they say must not matter to a budget. Where all are light and not
        `lasting`, a machine that loses its power may lose the newest of them, though no crash of a process does: for a
        caller that has the same on disk elsewhere.
        """
        with self._locked():
            self._head_due = False
            try:
                if lasting != self._forcing:
                    self._connection.execute(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
                    self._forcing = lasting
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise LedgerRefusedError(f"the ledger cannot be written ({error}): free the disk or the lock") from None
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if self._head_due:
                self._write_head(self._last())

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add one entry; only inside of `writing`, at whose end it is committed."""
        return self._insert(kind, body)

    def entries(self, after: Head = START) -> Iterator[Entry]:
        """Everything after a position, each link checked on the way."""
        previous, expected = after.digest, after.sequence + 1
        query = "SELECT sequence, kind, body, previous, digest FROM entries WHERE sequence > ? ORDER BY sequence"
        try:
            rows = self._connection.execute(query, (after.sequence,))
            for sequence, kind, body, claimed, digest in rows:
                if sequence != expected:
                    raise LedgerCorruptError(f"entry {expected} is missing: restore the ledger from a backup")
                if claimed != previous or digest != entry_digest(previous, sequence, kind, body):
                    raise LedgerCorruptError(
                        f"entry {sequence} is not what was written: restore the ledger from a backup"
                    )
                yield Entry(sequence, kind, _parsed(sequence, body), digest)
                previous, expected = digest, sequence + 1
        except sqlite3.DatabaseError as error:
            raise LedgerCorruptError(f"the ledger cannot be read ({error}): restore it from a backup") from None

    def verify(self, anchor: Head | None = None, former: Mapping[int, str] | None = None) -> Head:
        """Check every entry, the schema, the head beside the ledger and an anchor kept elsewhere; the newest head.

        `former` are the digests that entries had before the chain was written again in a newer layout.
        """
        # Under the writers' lock, so that an append between commit and head is never taken for a crash.
        with self._locked():
            return self._verify(anchor, former or {})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """As `_locked`, with a handle that stays open: two instances have two, so they exclude each other too."""
        if self._lock is None:
            self._lock = _open_lock(self.path)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _verify(self, anchor: Head | None, former: Mapping[int, str]) -> Head:
        try:
            statements = {row[0] for row in self._connection.execute("SELECT sql FROM sqlite_master WHERE sql NOTNULL")}
            damage = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise LedgerCorruptError(f"the ledger cannot be read ({error}): restore it from a backup") from None
        if statements != set(SCHEMA) or damage != "ok":
            raise LedgerCorruptError("the ledger's tables or triggers were altered: restore it from a backup")
        self._force()
        kept = self._kept_head()
        seen = {START.sequence: START.digest}
        last = START
        for entry in self.entries():
            last = Head(entry.sequence, entry.digest)
            seen[entry.sequence] = entry.digest
        if last == START:
            raise LedgerCorruptError(
                "the ledger is empty: restore it from a backup, or create one if it never was in use"
            )
        for name, mark in (("head beside the ledger", kept), ("anchor", anchor)):
            if mark is not None and mark.digest not in (seen.get(mark.sequence), former.get(mark.sequence)):
                why = "the ledger was cut" if mark.sequence > last.sequence else "the ledger was rewritten"
                raise LedgerCorruptError(f"{why}: entry {mark.sequence} is not the one of the {name}; restore it")
        if (behind := self._behind(kept)) > 1:
            raise LedgerCorruptError(
                f"the head beside the ledger is {behind} entries behind and a crash leaves one: "
                "entries were added by another hand, restore both files"
            )
        if last != kept:
            self._write_head(last)
        return last

    def _kept_head(self) -> Head:
        try:
            return Head.parse(self._head_path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerCorruptError(f"the ledger's head cannot be read ({error}): restore both files") from None

    def _behind(self, kept: Head) -> int:
        """How many entries that are not light lie after the head."""
        kinds = self._connection.execute("SELECT kind FROM entries WHERE sequence > ?", (kept.sequence,))
        return sum(kind not in self._light for (kind,) in kinds)

    def _settle_head(self) -> None:
        """Bring the head up to the entry before the next one, so that it never lags by more than that one."""
        last, kept = self._last(), self._kept_head()
        if kept == last:
            return
        self._force()
        row = self._connection.execute("SELECT digest FROM entries WHERE sequence = ?", (kept.sequence,)).fetchone()
        found = START if kept.sequence == 0 else Head(kept.sequence, row[0]) if row else None
        if found != kept or self._behind(kept) > 1:
            raise LedgerCorruptError("the head beside the ledger is not of its last entry: verify the ledger")
        self._write_head(last)

    def _last(self) -> Head:
        row = self._connection.execute("SELECT sequence, digest FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        return Head(*row) if row else START

    def _force(self) -> None:
        """What was committed, to the disk: a head never names an entry that a loss of power could take."""
        try:
            with open(self.path.with_name(self.path.name + "-wal"), "rb") as log:
                os.fsync(log.fileno())
        except FileNotFoundError:
            pass  # all of it is in the file itself
        except OSError as error:
            raise LedgerRefusedError(f"the ledger cannot be brought to the disk ({error}): repair the disk") from None

    def _insert(self, kind: str, body: dict[str, Any]) -> Entry:
        if kind not in self._light:
            if not self._forcing:
                raise LedgerRefusedError(f"an entry of kind {kind!r} has to last: write it as such")
            self._settle_head()
            self._head_due = True
        last = self._last()
        sequence, text = last.sequence + 1, canonical_json(body)
        digest = entry_digest(last.digest, sequence, kind, text)
        self._connection.execute(
            "INSERT INTO entries (sequence, kind, body, previous, digest) VALUES (?, ?, ?, ?, ?)",
            (sequence, kind, text, last.digest, digest),
        )
        return Entry(sequence, kind, _parsed(sequence, text), digest)

    def _write_head(self, head: Head) -> None:
        try:
            replace_durably(self._head_path, f"{head}\n")
        except OSError as error:
            raise LedgerRefusedError(
                f"the ledger's head cannot be written ({error}): free the disk, then repeat"
            ) from None


def _parsed(sequence: int, body: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        if isinstance(parsed := json.loads(body), dict):
            return parsed
    raise LedgerCorruptError(f"entry {sequence} makes no sense: restore the ledger from a backup")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The one lock of a ledger's files."""
    with _open_lock(path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _open_lock(path: Path) -> TextIO:
    try:
        return open(path.with_name(path.name + ".lock"), "a", opener=_private)
    except OSError as error:
        raise LedgerRefusedError(f"the ledger's lock cannot be taken ({error}): make its folder writable") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)
