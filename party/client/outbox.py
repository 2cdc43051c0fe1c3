"""The outbox: every answer of this party, on disk before its first byte leaves, so that a restart resends those bytes.

A second vector under one seed would be a two-time pad, and a second answer to one round a second exposure. So one row
per run and round is written once; a second question for a round, and a round below the last, are refused. The bytes
themselves are erased when the next round's are written; what stays for ever are digests and sizes. SQLite (WAL,
synchronous FULL, secure_delete), mode 600. One instance per thread. Imports `mpc`, `parley` and `party`.
"""

import datetime as dt
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from parley.federation.rounds import commitment_a, commitment_b
from parley.v1 import common_pb2

from mpc import crash
from party.client.errors import OutboxError

BUSY_SECONDS = 60.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    digest BLOB PRIMARY KEY, run TEXT NOT NULL, manifest BLOB NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    digest BLOB NOT NULL, round INTEGER NOT NULL, query BLOB NOT NULL, upload BLOB NOT NULL,
    payload_a BLOB, payload_b BLOB, acknowledged INTEGER NOT NULL DEFAULT 0,
    sent_a INTEGER NOT NULL DEFAULT 0, sent_b INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (digest, round)
) STRICT;
CREATE TABLE IF NOT EXISTS seen (
    digest BLOB PRIMARY KEY, round INTEGER NOT NULL, a BLOB NOT NULL, b BLOB NOT NULL, forgotten INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS receipts (
    digest BLOB NOT NULL, round INTEGER NOT NULL, role INTEGER NOT NULL, word BLOB NOT NULL,
    PRIMARY KEY (digest, round, role)
) STRICT;
"""

VERIFYING, WAITING, REFUSED, JOINED, LEFT, ENDED, SETTLED = (
    "verifying", "waiting", "refused", "joined", "left", "ended", "settled"
)  # fmt: skip
MOST_REFUSED = 64
"""Refused runs that are kept for the operator's eyes: the newest."""
OVER = (LEFT, SETTLED)
"""States after which a run is not asked about again; `ended` still waits for proof of its end."""


@dataclass
class Answer:
    """What was answered to one round."""

    round_index: int
    query: bytes
    """Digest of the question."""
    upload: bytes
    """Digest of the upload."""
    payload_a: bytes
    payload_b: bytes
    acknowledged: bool = False
    """By both aggregators. Durable only with the next answer: until then a crash just sends the bytes again."""
    sent_a: int = 0
    sent_b: int = 0
    receipts: dict[int, common_pb2.SignedWord] = field(default_factory=dict)
    """Of which server, by its role. Durable as soon as there are both: `kept`."""
    kept: bool = False

    @cached_property
    def commitments(self) -> tuple[bytes, bytes]:
        """To both halves."""
        return commitment_a(self.payload_a), commitment_b(self.payload_b)


@dataclass(frozen=True)
class Seen:
    """How much of a run's history this party has seen and found in order."""

    round: int
    digests: tuple[bytes, bytes]
    """Of both servers' statements of that round, A's first; the manifest's before round 0."""
    forgotten: int
    """Uploads that a server had given a receipt for and left out, after a restart."""


@dataclass(frozen=True)
class RunState:
    """One run, as its party sees it."""

    digest: bytes
    run: str
    manifest: bytes
    state: str
    reason: str
    at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class Sent:
    """What left the site in one run."""

    rounds: int
    last_round: int
    bytes_a: int
    bytes_b: int


class Outbox:
    """All runs' answers of one party."""

    def __init__(self, path: Path) -> None:
        try:
            path.touch(mode=0o600)
            path.chmod(0o600)
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA page_size = 8192")  # of a new file: half the frames for a large answer
            if self._database.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise OutboxError(f"{path.name} lies where SQLite has no write-ahead log: move it to a local disk")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("PRAGMA secure_delete = ON")
            self._database.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise OutboxError(f"the outbox {path.name} cannot be opened ({error}): check its folder and disk") from None

    def close(self) -> None:
        self._database.close()

    def put(self, digest: bytes, answer: Answer, last: Answer | None, seen: Seen | None = None) -> None:
        """Durable when it returns, with the history it goes on from; the bytes of every earlier round of the run are
        erased, `last` is noted as sent.
        """
        index = answer.round_index
        with self._writing() as execute:
            found = execute("SELECT MAX(round) FROM answers WHERE digest = ?", (digest,)).fetchone()[0]
            if found is not None and index <= found:
                raise OutboxError(
                    f"round {index} is not after round {found}, which was answered: resend what is stored"
                )
            self._supersede(digest, last)
            row = (digest, index, answer.query, answer.upload, answer.payload_a, answer.payload_b)
            execute(
                "INSERT INTO answers (digest, round, query, upload, payload_a, payload_b) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            if seen is not None:
                execute(
                    "INSERT INTO seen VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET "
                    "round = excluded.round, a = excluded.a, b = excluded.b, forgotten = excluded.forgotten",
                    (digest, seen.round, *seen.digests, seen.forgotten),
                )
            crash.point("party.outbox.uncommitted")
        crash.point("party.outbox")

    def last(self, digest: bytes) -> Answer | None:
        """The newest answer of a run, whose bytes are kept until the next."""
        row = self._database.execute(
            "SELECT round, query, upload, COALESCE(payload_a, x''), COALESCE(payload_b, x''), acknowledged, sent_a, "
            "sent_b FROM answers WHERE digest = ? ORDER BY round DESC LIMIT 1",
            (digest,),
        ).fetchone()
        if row is None:
            return None
        index, query, upload, payload_a, payload_b, acknowledged, sent_a, sent_b = row
        words = self._database.execute(
            "SELECT role, word FROM receipts WHERE digest = ? AND round = ?", (digest, index)
        ).fetchall()
        receipts = {role: common_pb2.SignedWord.FromString(word) for role, word in words}
        return Answer(index, query, upload, payload_a, payload_b, bool(acknowledged), sent_a, sent_b, receipts)

    def seen(self, digest: bytes) -> Seen | None:
        """How far the history of a run is known; None if nothing of it is."""
        row = self._database.execute("SELECT round, a, b, forgotten FROM seen WHERE digest = ?", (digest,)).fetchone()
        return Seen(row[0], (row[1], row[2]), row[3]) if row else None

    def keep_receipts(self, digest: bytes, answer: Answer) -> None:
        """Both servers' words that an upload is there, as evidence for as long as the outbox is kept."""
        with self._writing() as execute:
            for role, word in answer.receipts.items():
                execute(
                    "INSERT INTO receipts VALUES (?, ?, ?, ?) ON CONFLICT (digest, round, role) DO UPDATE SET "
                    "word = excluded.word",
                    (digest, answer.round_index, role, word.SerializeToString()),
                )

    def uploads(self, digest: bytes) -> dict[int, bytes]:
        """Round to digest of the upload, of everything that was answered in a run."""
        return dict(self._database.execute("SELECT round, upload FROM answers WHERE digest = ?", (digest,)))

    def finish(self, digest: bytes, last: Answer | None) -> None:
        """Nothing of this run is sent any more: its bytes are erased, from the write-ahead log too."""
        with self._writing():
            self._supersede(digest, last)
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def note(self, digest: bytes, run: str, manifest: bytes, state: str, reason: str = "") -> None:
        """Where a run stands; public facts only."""
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self._writing() as execute:
            execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET "
                "state = excluded.state, reason = excluded.reason, at = excluded.at",
                (digest, run, manifest, state, reason, at),
            )
            if state == REFUSED:  # each takes up to a mebibyte, and whoever leads runs can propose without end
                execute(
                    "DELETE FROM runs WHERE state = ? AND rowid NOT IN "
                    "(SELECT rowid FROM runs WHERE state = ? ORDER BY rowid DESC LIMIT ?)",
                    (REFUSED, REFUSED, MOST_REFUSED),
                )

    def runs(self) -> list[RunState]:
        """Oldest first."""
        rows = self._database.execute("SELECT digest, run, manifest, state, reason, at FROM runs ORDER BY rowid")
        return [RunState(*row) for row in rows.fetchall()]

    def sent(self, digest: bytes) -> Sent:
        """Of the newest round, only what an earlier process sent: it is counted when the next round begins."""
        row = self._database.execute(
            "SELECT COUNT(*), COALESCE(MAX(round), -1), COALESCE(SUM(MAX(sent_a, COALESCE(LENGTH(payload_a), 0))), 0), "
            "COALESCE(SUM(MAX(sent_b, COALESCE(LENGTH(payload_b), 0))), 0) FROM answers WHERE digest = ?",
            (digest,),
        ).fetchone()
        return Sent(*row)

    def _supersede(self, digest: bytes, last: Answer | None) -> None:
        if last is not None:
            self._database.execute(
                "UPDATE answers SET payload_a = NULL, payload_b = NULL, acknowledged = ?, sent_a = ?, sent_b = ? "
                "WHERE digest = ? AND round = ?",
                (last.acknowledged, last.sent_a, last.sent_b, digest, last.round_index),
            )

    @contextmanager
    def _writing(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield self._database.execute
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise OutboxError(f"the outbox cannot be written ({error}): free the disk or the lock") from None
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
