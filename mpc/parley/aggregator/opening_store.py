"""What an aggregation server keeps of its openings: prepared and committed shares, counts of commits, ended runs.

SQLite; whatever a method stores is on disk when it returns. A share is prepared before the other server hears of it,
committed once both are prepared, and only a committed one may leave this server. Counts are per run: how many openings
this server has committed, and the most that it has seen the other one say; neither ever goes down, but on a machine
that was restored from an old snapshot.

The bytes of a share stay until they cannot be asked for any more: while a round is prepared, the last one is there to
be sent again, and what came before it is erased in the same transaction, for whoever opens a round has had every one
before. What identifies an opening (request, contributors, opening, counts) and this server's signed statement of it
stay for ever; so does how often the noise of a round came to nothing.

Every row has a digest of its own (`seal`), and the commits of a run are as many as its count says: a damaged disk is
noticed before what it says is believed.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from parley.aggregator.request import Request
from parley.aggregator.restorable import RESTORING, Restorable
from parley.mpc import crash
from parley.mpc.errors import MpcError
from parley.privacy.layouts import OPENINGS, bring
from parley.privacy.store import opened, row_seal, transaction

TABLES = {
    "openings": "run TEXT NOT NULL, round INTEGER NOT NULL, request BLOB NOT NULL, length INTEGER NOT NULL, "
    "query BLOB NOT NULL, contributors TEXT NOT NULL, opening BLOB NOT NULL",
    "shares": "run TEXT NOT NULL, round INTEGER NOT NULL, share BLOB NOT NULL",
    "commits": "run TEXT NOT NULL, round INTEGER NOT NULL",
    "counts": "run TEXT NOT NULL, mine INTEGER NOT NULL, seen INTEGER NOT NULL",
    "statements": "run TEXT NOT NULL, round INTEGER NOT NULL, statement BLOB NOT NULL",
    "wasted": "run TEXT NOT NULL, round INTEGER NOT NULL, noisings INTEGER NOT NULL",
    "ended": "run TEXT NOT NULL, openings INTEGER NOT NULL",
    **RESTORING,
}
KEYS = dict.fromkeys(TABLES, "run, round") | dict.fromkeys(("counts", "ended", "lost", "settled"), "run")
KEYS["restored"] = "word"


class RefusedError(MpcError):
    """This server will not open what it was asked to open."""


class ErasedError(RefusedError):
    """A round whose share is erased, because later ones were opened."""


class DamagedError(MpcError):
    """A row that is not what was written: nothing is opened by it."""


class Phase(IntEnum):
    """How far one opening has come on one server."""

    nothing = 0
    prepared = 1
    committed = 2


@dataclass(frozen=True)
class Opened:
    """One server's reply: never sent to the other server."""

    contributors: tuple[str, ...]
    share: bytes
    """uint64[dimension], little-endian, reduced modulo 2^lattice.opening_bits."""
    opening: bytes
    """`parley.mpc.history.opening_id`."""
    statement: bytes = b""
    """This server's signed word about it."""


@dataclass(frozen=True)
class Stored:
    """A row of the store."""

    phase: Phase
    opened: Opened
    request_digest: bytes
    length: int
    query: bytes

    @property
    def erased(self) -> bool:
        return not self.opened.share

    def require_share(self, round_index: int) -> None:
        """An ErasedError where it is gone."""
        if self.erased:
            raise ErasedError(f"the share of round {round_index} is erased, for later rounds were opened")


@dataclass(frozen=True)
class Counts:
    """Of one run's commits."""

    mine: int
    """On this server."""
    seen: int
    """The most that the other server has said of itself."""


@dataclass(frozen=True)
class Totals:
    """Of one run's committed openings."""

    openings: int
    numbers: int
    """In all shares that may have left."""
    present: dict[str, int]
    """Party to the sums that it is in."""


class OpeningStore(Restorable):
    """At most one opening per (run, round), for good once it is committed."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._database = opened(path, large_rows=True, erasing=True)
            self._require_sound()
            bring(self._database, OPENINGS, dict.fromkeys((0, 2), lambda _: self._make_tables()))
        except (OSError, sqlite3.Error, UnicodeError) as error:
            raise DamagedError(f"the store of openings cannot be opened ({error}): restore it from a backup") from None

    def _require_sound(self) -> None:
        """What a seal cannot say: that no row, and no way to one, is gone."""
        found = self._database.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise DamagedError(f"the store of openings is damaged ({found}): restore it from a backup")

    def _make_tables(self) -> None:
        """Those that are missing, and for the rows of the first layout their seals."""
        execute = self._database.execute
        for table, columns in TABLES.items():
            made = {row[1] for row in execute(f"PRAGMA table_info({table})")}
            if not made:
                execute(f"CREATE TABLE {table} ({columns}, seal BLOB NOT NULL, PRIMARY KEY ({KEYS[table]})) STRICT")
            elif "seal" not in made:
                execute(f"ALTER TABLE {table} ADD COLUMN seal BLOB NOT NULL DEFAULT x''")
                names = ", ".join(_names(table))
                for rowid, *row in execute(f"SELECT rowid, {names} FROM {table}").fetchall():
                    execute(f"UPDATE {table} SET seal = ? WHERE rowid = ?", (_seal(table, *row), rowid))

    def _row(self, table: str, *key: str | int | bytes) -> tuple[Any, ...] | None:
        """The columns of a row, but for its seal, which must be theirs."""
        where = " AND ".join(f"{name} = ?" for name in KEYS[table].split(", "))
        try:
            query = f"SELECT seal, {', '.join(_names(table))} FROM {table} WHERE {where}"
            with closing(self._database.execute(query, key)) as rows:
                found = rows.fetchone()
        except (sqlite3.Error, UnicodeError) as error:
            raise DamagedError(f"the store of openings cannot be read ({error}): restore it from a backup") from None
        if found is None:
            return None
        if found[0] != _seal(table, *found[1:]):
            raise DamagedError(f"a row of {table} of run {key[0]!r} is not what was written: restore it from a backup")
        return tuple(found[1:])

    def _write(self, table: str, *row: bytes | str | int, how: str = "INSERT") -> int:
        """A row with its seal; how many were written."""
        marks = ", ".join("?" * (len(row) + 1))
        return self._database.execute(
            f"{how} INTO {table} ({', '.join(_names(table))}, seal) VALUES ({marks})", (*row, _seal(table, *row))
        ).rowcount

    def find(self, run: str, round_index: int) -> Stored | None:
        """The row, whoever asks."""
        with self._lock:
            found = self._row("openings", run, round_index)
            kept = self._row("shares", run, round_index)
            stated = self._row("statements", run, round_index)
            committed = self._row("commits", run, round_index)
        if found is None:
            return None
        _, _, request, length, query, contributors, opening = found
        share = kept[2] if kept is not None else b""
        statement = stated[2] if stated is not None else b""
        opened = Opened(tuple(contributors.split("\n")) if contributors else (), share, opening, statement)
        return Stored(Phase.committed if committed else Phase.prepared, opened, request, length, query)

    def get(self, request: Request) -> Stored | None:
        """The row for this request; a different request for the same (run, round) is refused."""
        found = self.find(request.run, request.round)
        if found is not None and found.request_digest != request.digest():
            raise RefusedError(
                f"round {request.round} of run {request.run} was opened with other parameters: a sum opens once"
            )
        if found is not None:
            found.require_share(request.round)
        return found

    def prepare(self, request: Request, opened: Opened, seen: int = 0) -> None:
        """Keep a share that nobody may see yet; the key's uniqueness is the last guard."""
        crash.point("aggregator.preparing")
        row = (
            request.run, request.round, request.digest(), request.dimension, request.query,
            "\n".join(opened.contributors), opened.opening,
        )  # fmt: skip
        with self._transaction():
            if self._value("SELECT 1 FROM ended WHERE run = ?", request.run):
                raise RefusedError(f"run {request.run} has ended here: nothing of it is opened any more")
            # Before the new row, which then takes the pages that this gives back.
            self._erase("round = ?", request.run, request.round - 2)
            try:
                self._write("openings", *row)
            except sqlite3.IntegrityError:
                raise RefusedError(f"round {request.round} of run {request.run} is open already") from None
            self._write("shares", request.run, request.round, opened.share)
            if opened.statement:
                self._write("statements", request.run, request.round, opened.statement)
            self._see(request.run, seen)
        crash.point("aggregator.prepared")

    def commit(self, run: str, round_index: int) -> None:
        """From now on, and only then, the share may leave. Again is fine."""
        crash.point("aggregator.committing")
        with self._transaction():
            if not self._value("SELECT 1 FROM openings WHERE run = ? AND round = ?", run, round_index):
                raise RefusedError(f"round {round_index} of run {run} was not prepared: nothing to commit")
            if self._write("commits", run, round_index, how="INSERT OR IGNORE"):
                counts = self._counts(run)
                self._write("counts", run, counts.mine + 1, counts.seen, how="INSERT OR REPLACE")
        crash.point("aggregator.committed")

    def discard(self, run: str, round_index: int) -> None:
        """Erase a prepared share, for the other server has none: nobody has seen it, and the sum is noised anew."""
        with self._transaction():
            if self._value("SELECT 1 FROM commits WHERE run = ? AND round = ?", run, round_index):
                raise RefusedError(f"round {round_index} of run {run} is committed: it cannot be taken back")
            prepared = self._value("SELECT 1 FROM openings WHERE run = ? AND round = ?", run, round_index)
            for table in ("openings", "shares", "statements"):
                self._database.execute(f"DELETE FROM {table} WHERE run = ? AND round = ?", (run, round_index))
            if prepared:
                self._waste(run, round_index)
        crash.point("aggregator.discarded")

    def last_with(self, run: str, party: str) -> int | None:
        """The newest round that was opened with a contribution of this party."""
        with self._lock:
            return self._value(
                "SELECT round FROM openings JOIN commits USING (run, round) WHERE run = ? "
                "AND instr(char(10) || contributors || char(10), char(10) || ? || char(10)) "
                "ORDER BY round DESC LIMIT 1",
                run, party,
            )  # fmt: skip

    def waste(self, run: str, round_index: int) -> None:
        """Noise was taken for a round and no share came of it."""
        with self._transaction():
            self._waste(run, round_index)

    def wasted(self, run: str, round_index: int) -> int:
        """How often noise that was taken for a round came to nothing."""
        with self._lock:
            found = self._row("wasted", run, round_index)
        return int(found[2]) if found is not None else 0

    def statements(self, run: str, start: int, most: int) -> list[bytes]:
        """Of consecutive committed rounds from `start` on."""
        found: list[bytes] = []
        with self._lock:
            for index in range(start, start + most):
                stated = self._row("statements", run, index)
                if stated is None or self._row("commits", run, index) is None:
                    break
                found.append(stated[2])
        return found

    def totals(self, run: str) -> Totals:
        """Over all that was committed, each row's seal checked."""
        openings, numbers, present = 0, 0, Counter[str]()
        with self._lock:
            rounds = self._rounds(run)
        for index in rounds:
            stored = self.find(run, index)
            if stored is not None and stored.phase is Phase.committed:
                openings, numbers = openings + 1, numbers + stored.length
                present.update(stored.opened.contributors)
        return Totals(openings, numbers, dict(present))

    def _rounds(self, run: str) -> list[int]:
        try:
            with closing(self._database.execute("SELECT round FROM commits WHERE run = ?", (run,))) as rows:
                return [int(row[0]) for row in rows.fetchall()]
        except sqlite3.DatabaseError as error:
            raise DamagedError(f"the store of openings cannot be read ({error}): restore it from a backup") from None

    def counts(self, run: str) -> Counts:
        with self._lock:
            return self._counts(run)

    def knows(self, run: str) -> bool:
        """Whether anything of it was ever prepared or committed here."""
        with self._lock:
            return bool(self._value("SELECT 1 FROM openings WHERE run = ?", run)) or self._counts(run).mine > 0

    def require_whole(self, run: str) -> None:
        """A DamagedError where commits of the run are gone, or there are more than were counted."""
        with self._lock:
            found = self._value("SELECT COUNT(*) FROM commits WHERE run = ?", run)
            if found != self._counts(run).mine:
                raise DamagedError(f"the openings of run {run} are not as many as were counted: restore the store")

    def _counts(self, run: str) -> Counts:
        found = self._row("counts", run)
        return Counts(found[1], found[2]) if found else Counts(0, 0)

    def see(self, run: str, seen: int) -> None:
        """Keep what the other server said of itself."""
        with self._transaction():
            self._see(run, seen)

    def end(self, run: str) -> int:
        """Nothing of the run is prepared any more; how many openings were committed. Again gives the same."""
        with self._transaction():
            if self._value(
                "SELECT 1 FROM openings WHERE run = ? AND round NOT IN (SELECT round FROM commits WHERE run = ?)",
                run, run,
            ):  # fmt: skip
                raise RefusedError(f"an opening of run {run} is prepared and not settled with the other server yet")
            self._write("ended", run, self._counts(run).mine, how="INSERT OR IGNORE")
            ended = self._row("ended", run)
            self._erase("round < (SELECT MAX(round) FROM openings WHERE run = ?)", run, run)
        with self._lock:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # erased there, too
        crash.point("aggregator.ended")
        return int(ended[1]) if ended is not None else 0

    def ended(self, run: str) -> int | None:
        """How many openings an ended run had; None if it has not ended."""
        with self._lock:
            found = self._row("ended", run)
        return None if found is None else int(found[1])

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _erase(self, which: str, run: str, parameter: str | int) -> None:
        """Committed shares only; `secure_delete` overwrites them."""
        self._database.execute(
            f"DELETE FROM shares WHERE run = ? AND {which} "
            "AND EXISTS (SELECT 1 FROM commits WHERE commits.run = shares.run AND commits.round = shares.round)",
            (run, parameter),
        )

    def _waste(self, run: str, round_index: int) -> None:
        found = self._row("wasted", run, round_index)
        self._write("wasted", run, round_index, (int(found[2]) if found else 0) + 1, how="INSERT OR REPLACE")

    def _see(self, run: str, seen: int) -> None:
        counts = self._counts(run)
        self._write("counts", run, counts.mine, max(counts.seen, seen), how="INSERT OR REPLACE")

    def _value(self, query: str, *parameters: str | int) -> int | None:
        try:
            with closing(self._database.execute(query, parameters)) as rows:
                found = rows.fetchone()
        except sqlite3.DatabaseError as error:
            raise DamagedError(f"the store of openings cannot be read ({error}): restore it from a backup") from None
        return None if found is None else int(found[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, transaction(self._database):
            yield


def _names(table: str) -> list[str]:
    return [column.split()[0] for column in TABLES[table].split(", ")]


def _seal(table: str, *values: bytes | str | int) -> bytes:
    return row_seal(f"openings 2 {table}", *values)
