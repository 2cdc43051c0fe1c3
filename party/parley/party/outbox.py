"""The outbox: every answer of this party, on disk before its first byte leaves, so that a restart resends those bytes.

A second vector under one seed would be a two-time pad, and a second answer to one round a second exposure. So one row
per run and round is written once; a second question for a round, and a round below the last, are refused. The bytes
themselves are erased when the next round's are written; what stays for ever are digests and sizes. Every row has a
digest of its own, so that a damaged disk is noticed before its bytes are believed. SQLite (WAL, synchronous FULL,
secure_delete), mode 600. One instance per thread.
"""

import datetime as dt
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from parley.federation.names import NodeName
from parley.federation.rounds import commitment_a, commitment_b, payload_bytes
from parley.mpc import crash
from parley.node.statements import Audited
from parley.party.errors import OutboxError
from parley.privacy.layouts import OUTBOX, bring, require_known
from parley.privacy.store import NoLogError, made_of, opened, opened_to_read, row_seal, transaction
from parley.v1 import common_pb2

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    digest BLOB PRIMARY KEY, run TEXT NOT NULL, manifest BLOB NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL, seal BLOB NOT NULL DEFAULT x''
) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    digest BLOB NOT NULL, round INTEGER NOT NULL, query BLOB NOT NULL, upload BLOB NOT NULL,
    payload_a BLOB, payload_b BLOB, acknowledged INTEGER NOT NULL DEFAULT 0,
    sent_a INTEGER NOT NULL DEFAULT 0, sent_b INTEGER NOT NULL DEFAULT 0, seal BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (digest, round)
) STRICT;
CREATE TABLE IF NOT EXISTS seen (
    digest BLOB PRIMARY KEY, round INTEGER NOT NULL, a BLOB NOT NULL, b BLOB NOT NULL, forgotten INTEGER NOT NULL,
    seal BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS audited (
    digest BLOB PRIMARY KEY, epoch BLOB NOT NULL, place INTEGER NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL,
    seal BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS receipts (
    digest BLOB NOT NULL, round INTEGER NOT NULL, role INTEGER NOT NULL, word BLOB NOT NULL,
    PRIMARY KEY (digest, round, role)
) STRICT;
CREATE TABLE IF NOT EXISTS words (
    digest BLOB NOT NULL, server TEXT NOT NULL, restored BLOB NOT NULL, seal BLOB NOT NULL,
    PRIMARY KEY (digest, server)
) STRICT;
"""
ANSWER = "round, query, upload, payload_a, payload_b, acknowledged, sent_a, sent_b"
RUN = "digest, run, manifest, state, reason, at"

VERIFYING, WAITING, REFUSED, JOINED, LEFT, ENDED, SETTLED = (
    "verifying", "waiting", "refused", "joined", "left", "ended", "settled"
)  # fmt: skip
MOST_REFUSED = 64
"""Refused runs that are kept for the operator's eyes: the newest."""
RESTORE = "stop this node, and put back the newest copy of the whole folder `state`"
OVER = (LEFT, SETTLED)
"""States after which a run is not asked about again; `ended` still waits for proof of its end."""


@dataclass(kw_only=True)
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
    erased: bool = False
    """Its bytes are gone, for a later round was answered or the run is over."""
    receipts: dict[int, common_pb2.SignedWord] = field(default_factory=dict)
    """Of which server, by its role. Durable as soon as there are both: `kept`."""
    kept: bool = False

    def answers(self, length: int, bits: int) -> bool:
        """Whether it is of so many numbers of so many bits, for all that is known: its bytes may be gone."""
        return not self.payload_a or len(self.payload_a) == payload_bytes(0, length, bits)

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
    audited: Audited | None = None
    """How far audits had come, in a run that has them."""


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


def _seal(*values: bytes | str | int) -> bytes:
    return row_seal("outbox 2", *values)


def answer_of(row: Sequence[Any]) -> Answer:
    """From the columns of ANSWER."""
    index, query, upload, payload_a, payload_b, acknowledged, sent_a, sent_b = row
    erased = payload_a is None
    return Answer(
        round_index=index,
        query=query,
        upload=upload,
        payload_a=payload_a or b"",
        payload_b=payload_b or b"",
        acknowledged=bool(acknowledged),
        sent_a=sent_a,
        sent_b=sent_b,
        erased=erased,
    )


def sealed_row(digest: bytes, answer: Answer) -> bytes:
    """By the commitments to the bytes, not by the bytes."""
    held = (b"", b"") if answer.erased else answer.commitments
    counts = (int(answer.acknowledged), answer.sent_a, answer.sent_b)
    return _seal(digest, answer.round_index, answer.query, answer.upload, *held, *counts)


class Outbox:
    """All runs' answers of one party."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """`read_only` beside its node: nothing is made, upgraded or written."""
        try:
            self._database = opened_to_read(path) if read_only else opened(path, large_rows=True, erasing=True)
            if read_only:
                require_known(self._database, OUTBOX)
            else:  # the first layout had no `seal`, the second no audits, the third no words
                more = dict.fromkeys((2, 3), lambda _: self._make_tables())
                bring(self._database, OUTBOX, {0: lambda _: self._seal_all(), **more})
        except NoLogError as error:
            raise OutboxError(f"{path.name} {error}") from None
        except (OSError, sqlite3.Error, UnicodeError) as error:
            raise OutboxError(f"the outbox {path.name} cannot be opened ({error}): check its folder and disk") from None

    def close(self) -> None:
        self._database.close()

    def require_sound(self) -> None:
        """What a seal cannot say: that no row, and no way to one, is gone. Reads all of it: once for a process."""
        with self._reading() as execute:
            found = execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise OutboxError(f"the outbox is damaged ({found}): {RESTORE}")

    def _make_tables(self) -> None:
        made_of(self._database, SCHEMA)

    def _seal_all(self) -> None:
        execute = self._database.execute
        for table in ("runs", "answers"):
            columns = {row[1] for row in execute(f"PRAGMA table_info({table})")}
            if columns and "seal" not in columns:
                execute(f"ALTER TABLE {table} ADD COLUMN seal BLOB NOT NULL DEFAULT x''")
        self._make_tables()
        for rowid, *row in execute(f"SELECT rowid, {RUN} FROM runs").fetchall():
            execute("UPDATE runs SET seal = ? WHERE rowid = ?", (_seal(*row), rowid))
        for rowid, digest, *row in execute(f"SELECT rowid, digest, {ANSWER} FROM answers").fetchall():
            seal = sealed_row(digest, answer_of(row))
            execute("UPDATE answers SET seal = ? WHERE rowid = ?", (seal, rowid))

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
            fresh = Answer(
                round_index=index,
                query=answer.query,
                upload=answer.upload,
                payload_a=answer.payload_a,
                payload_b=answer.payload_b,
            )
            fresh.commitments = answer.commitments  # which the upload needs, too: hashed once
            execute(
                "INSERT INTO answers (digest, round, query, upload, payload_a, payload_b, seal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, sealed_row(digest, fresh)),
            )
            if seen is not None:
                history = (digest, seen.round, *seen.digests, seen.forgotten)
                execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?)", (*history, _seal(*history)))
                if (audited := seen.audited) is not None:
                    counts = (digest, audited.epoch, audited.end, *audited.made)
                    execute("INSERT OR REPLACE INTO audited VALUES (?, ?, ?, ?, ?, ?)", (*counts, _seal(*counts)))
            crash.point("party.outbox.uncommitted")
        crash.point("party.outbox")

    def last(self, digest: bytes) -> Answer | None:
        """The newest answer of a run, whose bytes are kept until the next."""
        found = self._answers(digest, "ORDER BY round DESC LIMIT 1")
        if not found:
            return None
        answer = found[0]
        with self._reading() as execute:
            words = execute(
                "SELECT role, word FROM receipts WHERE digest = ? AND round = ?", (digest, answer.round_index)
            ).fetchall()
        try:
            answer.receipts = {role: common_pb2.SignedWord.FromString(word) for role, word in words}
        except DecodeError:
            raise OutboxError(f"a receipt in the outbox is not what was written: {RESTORE}") from None
        return answer

    def seen(self, digest: bytes) -> Seen | None:
        """How far the history of a run is known; None if nothing of it is."""
        with self._reading() as execute:
            row = execute("SELECT seal, round, a, b, forgotten FROM seen WHERE digest = ?", (digest,)).fetchone()
            counts = execute("SELECT seal, epoch, place, a, b FROM audited WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            return None
        if any(found[0] != _seal(digest, *found[1:]) for found in (row, counts) if found is not None):
            raise OutboxError(f"the history in the outbox is not what was written: {RESTORE}")
        audited = Audited(counts[1], counts[2], (counts[3], counts[4])) if counts is not None else None
        return Seen(row[1], (row[2], row[3]), row[4], audited)

    def keep_receipts(self, digest: bytes, answer: Answer) -> None:
        """Both servers' words that an upload is there, as evidence for as long as the outbox is kept."""
        with self._writing() as execute:
            for role, word in answer.receipts.items():
                execute(
                    "INSERT INTO receipts VALUES (?, ?, ?, ?) ON CONFLICT (digest, round, role) DO UPDATE SET "
                    "word = excluded.word",
                    (digest, answer.round_index, role, word.SerializeToString()),
                )

    def keep_words(self, digest: bytes, restored: Mapping[NodeName, bytes]) -> None:
        """What each server said, when it admitted the run, of being restored: before the run is charged."""
        with self._writing() as execute:
            for server, word in restored.items():
                row = (digest, server.uri, word)
                execute("INSERT OR REPLACE INTO words VALUES (?, ?, ?, ?)", (*row, _seal(*row)))

    def words(self, digest: bytes) -> dict[NodeName, bytes]:
        """The same; of a run that was charged before servers said so there is nothing, and none had been restored."""
        with self._reading() as execute:
            rows = execute("SELECT seal, digest, server, restored FROM words WHERE digest = ?", (digest,)).fetchall()
        if any(seal != _seal(*row) for seal, *row in rows):
            raise OutboxError(f"a server's word in the outbox is not what was written: {RESTORE}")
        return {NodeName.parse(server): restored for _, _, server, restored in rows}

    def uploads(self, digest: bytes) -> dict[int, bytes]:
        """Round to digest of the upload, of everything that was answered in a run."""
        return {answer.round_index: answer.upload for answer in self._answers(digest)}

    def _answers(self, digest: bytes, which: str = "ORDER BY round") -> list[Answer]:
        with self._reading() as execute:
            rows = execute(f"SELECT seal, {ANSWER} FROM answers WHERE digest = ? {which}", (digest,)).fetchall()
            found = []
            for seal, *row in rows:
                answer = answer_of(row)
                if seal != sealed_row(digest, answer):
                    raise OutboxError(f"round {answer.round_index} in the outbox is not what was written: {RESTORE}")
                found.append(answer)
            return found

    def finish(self, digest: bytes, last: Answer | None) -> None:
        """Nothing of this run is sent any more: its bytes are erased, from the write-ahead log too."""
        with self._writing():
            self._supersede(digest, last)
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def note(self, digest: bytes, run: str, manifest: bytes, state: str, reason: str = "") -> None:
        """Where a run stands; public facts only."""
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self._writing() as execute:
            row = (digest, run, manifest, state, reason, at)
            execute(
                f"INSERT INTO runs ({RUN}, seal) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET "
                "state = excluded.state, reason = excluded.reason, at = excluded.at, seal = excluded.seal",
                (*row, _seal(*row)),
            )
            if state == REFUSED:  # each takes up to a mebibyte, and whoever leads runs can propose without end
                execute(
                    "DELETE FROM runs WHERE state = ? AND rowid NOT IN "
                    "(SELECT rowid FROM runs WHERE state = ? ORDER BY rowid DESC LIMIT ?)",
                    (REFUSED, REFUSED, MOST_REFUSED),
                )

    def runs(self) -> list[RunState]:
        """Oldest first."""
        with self._reading() as execute:
            rows = execute(f"SELECT seal, {RUN} FROM runs ORDER BY rowid").fetchall()
            for seal, *row in rows:
                if seal != _seal(*row):
                    raise OutboxError(f"run {row[1]!r} in the outbox is not what was written: {RESTORE}")
            return [RunState(*row) for _, *row in rows]

    def sent(self, digest: bytes) -> Sent:
        """Of the newest round, only what an earlier process sent: it is counted when the next round begins."""
        found = self._answers(digest)
        return Sent(
            len(found),
            max((answer.round_index for answer in found), default=-1),
            sum(max(answer.sent_a, len(answer.payload_a)) for answer in found),
            sum(max(answer.sent_b, len(answer.payload_b)) for answer in found),
        )

    def _supersede(self, digest: bytes, last: Answer | None) -> None:
        if last is not None:
            gone = replace(last, payload_a=b"", payload_b=b"", erased=True)
            self._database.execute(
                "UPDATE answers SET payload_a = NULL, payload_b = NULL, acknowledged = ?, sent_a = ?, sent_b = ?, "
                "seal = ? WHERE digest = ? AND round = ?",
                (last.acknowledged, last.sent_a, last.sent_b, sealed_row(digest, gone), digest, last.round_index),
            )

    @contextmanager
    def _reading(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        try:
            yield self._database.execute
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise OutboxError(f"the outbox cannot be read ({error}): {RESTORE}") from None

    @contextmanager
    def _writing(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        try:
            with transaction(self._database):
                yield self._database.execute
        except sqlite3.Error as error:
            raise OutboxError(f"the outbox cannot be written ({error}): free the disk or the lock") from None
