"""What reviewers have signed, which policies were in force, and who refused which run: state/review.sqlite.

Rows are added and never changed, but for one mark: that a signature was seen to have run out, which a clock that is put
back does not take away. What a row claims is believed by its signature alone (`parley.party.review`).
"""

import datetime as dt
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from parley.federation.errors import ApprovalError, UnusableRecordError
from parley.privacy.store import opened, transaction

MOST_VOTES = 10_000
"""Of one thing: an error beyond, and not a file without end."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS policies (
    number INTEGER PRIMARY KEY, digest TEXT NOT NULL, policy BLOB NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    at TEXT NOT NULL, signed_by TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS votes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, subject TEXT NOT NULL, reviewer TEXT NOT NULL,
    key BLOB NOT NULL, statement BLOB NOT NULL, signature BLOB NOT NULL, over INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX IF NOT EXISTS by_subject ON votes (kind, subject);
CREATE TABLE IF NOT EXISTS refusals (
    digest TEXT PRIMARY KEY, run TEXT NOT NULL, refused_by TEXT NOT NULL, reason TEXT NOT NULL,
    at TEXT NOT NULL) STRICT;
"""


def now() -> dt.datetime:
    """To the second."""
    return dt.datetime.now(dt.UTC).replace(microsecond=0)


@dataclass(frozen=True)
class PolicyRow:
    """A policy that is or was in force, with [budget] of node.toml beside it."""

    number: int
    digest: str
    policy: bytes
    epsilon: float
    delta: float
    at: str
    signed_by: str
    """Names; empty for the first one, which nobody could sign."""


@dataclass(frozen=True)
class Vote:
    """A signature, as it was given."""

    id: int
    kind: str
    subject: str
    reviewer: str
    key: bytes
    statement: bytes
    signature: bytes
    over: int
    """1 once it was seen to have run out."""


@dataclass(frozen=True)
class RefusedHere:
    """A run that a person has refused for this node. The reason stays on this machine."""

    by: str
    reason: str
    at: str


class ReviewStore:
    """The open file; several processes of a node may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._errors():
            self._database = opened(path)
            self._database.executescript(SCHEMA)

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """None where nobody has ever signed or refused anything."""
        return cls(path) if path.exists() else None

    def close(self) -> None:
        self._database.close()

    def policy(self) -> PolicyRow | None:
        """The one in force."""
        with self._errors():
            found = self._database.execute("SELECT * FROM policies ORDER BY number DESC LIMIT 1").fetchone()
        return None if found is None else PolicyRow(*found)

    def add_policy(self, row: PolicyRow) -> bool:
        """As the next one; false where another one has its number already."""
        with self._errors(), transaction(self._database):
            newest = self._database.execute("SELECT coalesce(max(number), 0) FROM policies").fetchone()[0]
            if row.number != newest + 1:
                return False
            values = (row.number, row.digest, row.policy, row.epsilon, row.delta, row.at, row.signed_by)
            self._database.execute("INSERT INTO policies VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            return True

    def add_vote(self, kind: str, subject: str, reviewer: str, key: bytes, statement: bytes, signature: bytes) -> None:
        with self._errors(), transaction(self._database):
            if len(self.votes(kind, subject)) >= MOST_VOTES:
                raise ApprovalError(f"{MOST_VOTES:,} signatures of this are kept: refuse the run, or ask for a new one")
            self._database.execute(
                "INSERT INTO votes (kind, subject, reviewer, key, statement, signature) VALUES (?, ?, ?, ?, ?, ?)",
                (kind, subject, reviewer, key, statement, signature),
            )

    def votes(self, kind: str, subject: str) -> list[Vote]:
        """Oldest first."""
        query = (
            "SELECT id, kind, subject, reviewer, key, statement, signature, over FROM votes "
            "WHERE kind = ? AND subject = ? ORDER BY id"
        )
        with self._errors():
            rows = self._database.execute(query, (kind, subject)).fetchall()
        return [Vote(*row) for row in rows]

    def mark_over(self, votes: list[int]) -> None:
        """For good."""
        with self._errors(), transaction(self._database):
            self._database.executemany("UPDATE votes SET over = 1 WHERE id = ?", [(each,) for each in votes])

    def refuse(self, digest: str, run: str, by: str, reason: str) -> RefusedHere:
        """The first word stays."""
        with self._errors(), transaction(self._database):
            self._database.execute(
                "INSERT INTO refusals VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (digest, run, by, reason, now().isoformat()),
            )
        found = self.refusal(digest)
        assert found is not None
        return found

    def refusal(self, digest: str) -> RefusedHere | None:
        query = "SELECT refused_by, reason, at FROM refusals WHERE digest = ?"
        with self._errors():
            found = self._database.execute(query, (digest,)).fetchone()
        return None if found is None else RefusedHere(*found)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise UnusableRecordError(
                f"{self._path.name} cannot be used ({error}): free the disk, or put back the newest copy of `state`"
            ) from None


class closing_if:
    """`closing` of what may be nothing."""

    def __init__(self, store: ReviewStore | None) -> None:
        self._store = store

    def __enter__(self) -> ReviewStore | None:
        return self._store

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()
