"""What an aggregation server keeps of its openings: prepared and committed shares, counts of commits, ended runs.

SQLite; whatever a method stores is on disk when it returns. A share is prepared before the other server hears of it,
committed once both are prepared, and only a committed one may leave this server. Counts are per run: how many openings
this server has committed, and the most that it has seen the other one say; neither ever goes down, but on a machine
that was restored from an old snapshot.

The bytes of a share stay until they cannot be asked for any more: while a round is prepared, the last one is there to
be sent again, and what came before it is erased in the same transaction, for whoever opens a round has had every one
before. What identifies an opening (request, contributors, opening, counts) and this server's signed statement of it
stay for ever; so does how often the noise of a round came to nothing.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from mpc import crash
from mpc.errors import MpcError
from mpc.request import Request

SCHEMA = """
CREATE TABLE IF NOT EXISTS openings (
    run TEXT NOT NULL, round INTEGER NOT NULL, request BLOB NOT NULL, length INTEGER NOT NULL, query BLOB NOT NULL,
    contributors TEXT NOT NULL, opening BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE IF NOT EXISTS shares (
    run TEXT NOT NULL, round INTEGER NOT NULL, share BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE IF NOT EXISTS commits (run TEXT NOT NULL, round INTEGER NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE IF NOT EXISTS counts (run TEXT PRIMARY KEY, mine INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS statements (
    run TEXT NOT NULL, round INTEGER NOT NULL, statement BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE IF NOT EXISTS wasted (
    run TEXT NOT NULL, round INTEGER NOT NULL, noisings INTEGER NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE IF NOT EXISTS ended (run TEXT PRIMARY KEY, openings INTEGER NOT NULL) STRICT;
"""


class RefusedError(MpcError):
    """This server will not open what it was asked to open."""


class ErasedError(RefusedError):
    """A round whose share is erased, because later ones were opened."""


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
    """`mpc.history.opening_id`."""
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


class OpeningStore:
    """At most one opening per (run, round), for good once it is committed."""

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        self._database.execute("PRAGMA page_size = 8192")  # of a new file: half the frames for a large share
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA secure_delete = ON")
        self._database.executescript(SCHEMA)

    def find(self, run: str, round_index: int) -> Stored | None:
        """The row, whoever asks."""
        with self._lock:
            found = self._database.execute(
                "SELECT request, length, query, contributors, COALESCE(share, x''), opening, COALESCE(statement, x''), "
                "EXISTS (SELECT 1 FROM commits WHERE commits.run = openings.run AND commits.round = openings.round) "
                "FROM openings LEFT JOIN shares USING (run, round) LEFT JOIN statements USING (run, round) "
                "WHERE run = ? AND round = ?",
                (run, round_index),
            ).fetchone()
        if found is None:
            return None
        request, length, query, contributors, share, opening, statement, committed = found
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
                self._database.execute("INSERT INTO openings VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise RefusedError(f"round {request.round} of run {request.run} is open already") from None
            self._database.execute("INSERT INTO shares VALUES (?, ?, ?)", (request.run, request.round, opened.share))
            if opened.statement:
                self._database.execute(
                    "INSERT INTO statements VALUES (?, ?, ?)", (request.run, request.round, opened.statement)
                )
            self._see(request.run, seen)
        crash.point("aggregator.prepared")

    def commit(self, run: str, round_index: int) -> None:
        """From now on, and only then, the share may leave. Again is fine."""
        crash.point("aggregator.committing")
        with self._transaction():
            if not self._value("SELECT 1 FROM openings WHERE run = ? AND round = ?", run, round_index):
                raise RefusedError(f"round {round_index} of run {run} was not prepared: nothing to commit")
            if self._database.execute("INSERT OR IGNORE INTO commits VALUES (?, ?)", (run, round_index)).rowcount:
                self._database.execute(
                    "INSERT INTO counts VALUES (?, 1, 0) ON CONFLICT (run) DO UPDATE SET mine = mine + 1", (run,)
                )
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

    def waste(self, run: str, round_index: int) -> None:
        """Noise was taken for a round and no share came of it."""
        with self._transaction():
            self._waste(run, round_index)

    def wasted(self, run: str, round_index: int) -> int:
        """How often noise that was taken for a round came to nothing."""
        with self._lock:
            return self._value("SELECT noisings FROM wasted WHERE run = ? AND round = ?", run, round_index) or 0

    def statements(self, run: str, start: int, most: int) -> list[bytes]:
        """Of consecutive committed rounds from `start` on."""
        with self._lock:
            found = self._database.execute(
                "SELECT round, statement FROM statements JOIN commits USING (run, round) "
                "WHERE run = ? AND round BETWEEN ? AND ? ORDER BY round",
                (run, start, start + most - 1),
            ).fetchall()
        return [statement for place, (index, statement) in enumerate(found) if index == start + place]

    def counts(self, run: str) -> Counts:
        with self._lock:
            found = self._database.execute("SELECT mine, seen FROM counts WHERE run = ?", (run,)).fetchone()
        return Counts(*found) if found else Counts(0, 0)

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
            mine = self._value("SELECT mine FROM counts WHERE run = ?", run) or 0
            self._database.execute("INSERT OR IGNORE INTO ended VALUES (?, ?)", (run, mine))
            openings = self._value("SELECT openings FROM ended WHERE run = ?", run)
            self._erase("round < (SELECT MAX(round) FROM openings WHERE run = ?)", run, run)
        with self._lock:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # erased there, too
        crash.point("aggregator.ended")
        return openings or 0

    def ended(self, run: str) -> int | None:
        """How many openings an ended run had; None if it has not ended."""
        with self._lock:
            return self._value("SELECT openings FROM ended WHERE run = ?", run)

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
        self._database.execute(
            "INSERT INTO wasted VALUES (?, ?, 1) ON CONFLICT (run, round) DO UPDATE SET noisings = noisings + 1",
            (run, round_index),
        )

    def _see(self, run: str, seen: int) -> None:
        self._database.execute(
            "INSERT INTO counts VALUES (?, 0, ?) ON CONFLICT (run) DO UPDATE SET seen = max(seen, excluded.seen)",
            (run, seen),
        )

    def _value(self, query: str, *parameters: str | int) -> int | None:
        with closing(self._database.execute(query, parameters)) as rows:
            found = rows.fetchone()
        return None if found is None else int(found[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
