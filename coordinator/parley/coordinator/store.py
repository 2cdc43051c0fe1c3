"""Runs on disk: everything the coordinator has to know after a crash, and everything that may be shown.

One transaction per round (`advance`): the next question, the algorithm's checkpoint, the round's public record. What is
here is public or released: manifests, questions, models, noised estimates' norms, times, who was present. SQLite in WAL
mode, so that the dashboard and the command line read while a run goes on.
"""

import json
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.coordinator.errors import StateError
from parley.federation.manifest import of_an_earlier_version
from parley.privacy.layouts import RUNS, bring, require_known
from parley.privacy.store import made_of, opened, opened_to_read, transaction

Floats = NDArray[np.float64]

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    digest BLOB PRIMARY KEY, run TEXT NOT NULL UNIQUE, manifest BLOB NOT NULL, state TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '', submitted REAL NOT NULL, started REAL, ended REAL,
    round INTEGER NOT NULL DEFAULT 0, question BLOB, checkpoint BLOB, theta BLOB, claim TEXT NOT NULL DEFAULT '{}',
    evaluation TEXT NOT NULL DEFAULT '{}') STRICT;
CREATE TABLE IF NOT EXISTS members (
    digest BLOB NOT NULL, node TEXT NOT NULL, answer TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (digest, node)) STRICT;
CREATE TABLE IF NOT EXISTS points (
    digest BLOB NOT NULL, point BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (digest, point)) STRICT;
CREATE TABLE IF NOT EXISTS history (
    digest BLOB NOT NULL, round INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (digest, round)) STRICT;
CREATE TABLE IF NOT EXISTS admissions (
    digest BLOB NOT NULL, aggregator TEXT NOT NULL, word BLOB NOT NULL, PRIMARY KEY (digest, aggregator)) STRICT;
CREATE TABLE IF NOT EXISTS statements (
    digest BLOB NOT NULL, round INTEGER NOT NULL, place INTEGER NOT NULL, word BLOB NOT NULL,
    PRIMARY KEY (digest, round, place)) STRICT;
CREATE TABLE IF NOT EXISTS examples (digest BLOB PRIMARY KEY, round INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS ends (
    digest BLOB NOT NULL, aggregator TEXT NOT NULL, word BLOB NOT NULL, PRIMARY KEY (digest, aggregator)) STRICT;
"""


class State(StrEnum):
    """Of a run. From `stalled` on nothing happens by itself; `stalled` and `stopped` can be resumed."""

    verifying = "verifying"
    gathering = "gathering"
    running = "running"
    ending = "ending"
    stalled = "stalled"
    stopped = "stopped"
    finished = "finished"
    failed = "failed"
    refused = "refused"

    @property
    def resting(self) -> bool:
        return self.resumable or self.final

    @property
    def resumable(self) -> bool:
        return self in (State.stalled, State.stopped)

    @property
    def final(self) -> bool:
        return self in (State.finished, State.failed, State.refused)


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One run, as it stands."""

    digest: bytes
    run: str
    manifest: bytes
    state: State
    outcome: str
    submitted: float
    started: float | None
    ended: float | None
    round: int
    """The round that waits to be opened."""
    claim: dict[str, Any]
    evaluation: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """What everybody may know of a round."""

    round: int
    at: float
    """When it ended, seconds since the epoch."""
    seconds: float
    waited_seconds: float
    """For contributions, on the slower server."""
    agreed_seconds: float
    noised_seconds: float
    stepped_seconds: float
    contributors: list[str]
    missing: list[str]
    estimator_norm: float
    noise_norm: float
    """Expected norm of the noise alone in the estimator."""
    bytes_down: int
    """To all parties, of the question."""
    bytes_up: int
    """From all contributors to both servers."""
    evaluation: dict[str, float]
    """On the public set; empty in rounds without one."""


class RunStore:
    """The coordinator's database; readers in other processes open it with `read_only`."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self._lock = threading.RLock()
        try:
            if read_only:
                self._database = opened_to_read(path)
                require_known(self._database, RUNS)
                return
            self._database = opened(path)
            bring(self._database, RUNS, {0: lambda made: made_of(made, SCHEMA)})
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"the runs in {path} cannot be opened ({error}): check the node's folder") from None

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, transaction(self._database):
            yield self._database

    def _all(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, arguments).fetchall()

    # ------------------------------------------------------------ runs

    def submit(self, digest: bytes, run: str, manifest: bytes) -> None:
        """A new run; the same manifest again changes nothing, another one under the same name is refused."""
        held = self._all(f"SELECT {_COLUMNS} FROM runs WHERE run = ?", run)
        if held and held[0][0] != digest:
            raise StateError(f"run {run} was submitted with another manifest: {self.used_up(_row(held[0]))}")
        with self._transaction() as database:
            database.execute(
                "INSERT INTO runs (digest, run, manifest, state, submitted) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (digest, run, manifest, State.verifying, time.time()),
            )

    def runs(self) -> list[RunRow]:
        """All whose manifests this version reads, oldest first."""
        found = self._all(f"SELECT {_COLUMNS} FROM runs ORDER BY submitted, run")
        return [_row(each) for each in found if not of_an_earlier_version(each[2])]

    def get(self, digest: bytes) -> RunRow | None:
        found = self._all(f"SELECT {_COLUMNS} FROM runs WHERE digest = ?", digest)
        return _row(found[0]) if found else None

    def find(self, run: str) -> RunRow:
        """By name, or the only one if there is one."""
        found = self._all(f"SELECT {_COLUMNS} FROM runs WHERE run = ?", run)
        if not found:
            known = ", ".join(each.run for each in self.runs()) or "none"
            raise StateError(f"no run {run!r} on this coordinator: it has {known}")
        if of_an_earlier_version(found[0][2]):
            raise StateError(f"run {run!r} is of an earlier version of parley, and only that version can show it")
        return _row(found[0])

    def used_up(self, row: RunRow) -> str:
        """Of a name that no further run can have: since when, why, and one that is free."""
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.ended or row.submitted))
        why = f" ({row.outcome})" if row.outcome else ""
        taken = {name for (name,) in self._all("SELECT run FROM runs")}
        stem = row.run.rstrip("0123456789").removesuffix("-") or row.run
        free = next(name for number in count(2) if (name := f"{stem[:48]}-{number}") not in taken)
        return (
            f"that one is {row.state} since {at}{why}, and a run's name can be used only once: choose another in the "
            f'manifest, such as run = "{free}"'
        )

    def set_state(self, digest: bytes, state: State, outcome: str = "") -> None:
        """Durable before it returns."""
        with self._transaction() as database:
            database.execute(
                "UPDATE runs SET state = ?, outcome = ?, ended = ? WHERE digest = ?",
                (state, outcome, time.time() if state.resting else None, digest),
            )
            if state is State.running:
                database.execute(
                    "UPDATE runs SET started = coalesce(started, ?) WHERE digest = ?", (time.time(), digest)
                )

    def set_claim(self, digest: bytes, claim: Mapping[str, Any]) -> None:
        with self._transaction() as database:
            database.execute("UPDATE runs SET claim = ? WHERE digest = ?", (json.dumps(claim), digest))

    # ------------------------------------------------------------ members and ends

    def answer(self, digest: bytes, node: str, answer: str, reason: str = "") -> None:
        """What a node said to the run: `joined`, `refused`, `pending`."""
        with self._transaction() as database:
            database.execute(
                "INSERT INTO members VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET answer = excluded.answer, "
                "reason = excluded.reason",
                (digest, node, answer, reason),
            )

    def answers(self, digest: bytes) -> dict[str, tuple[str, str]]:
        """Node to (answer, reason)."""
        return {node: (answer, reason) for node, answer, reason in self._all(
            "SELECT node, answer, reason FROM members WHERE digest = ?", digest
        )}  # fmt: skip

    def put_admission(self, digest: bytes, aggregator: str, word: bytes) -> None:
        """The newest: one under a certificate that has been renewed since is as good."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO admissions VALUES (?, ?, ?)", (digest, aggregator, word))

    def admissions(self, digest: bytes) -> dict[str, bytes]:
        """Both aggregators' words that they take part, as far as they are there."""
        return dict(self._all("SELECT aggregator, word FROM admissions WHERE digest = ?", digest))

    def put_end(self, digest: bytes, aggregator: str, word: bytes) -> None:
        with self._transaction() as database:
            database.execute("INSERT INTO ends VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (digest, aggregator, word))

    def ends(self, digest: bytes) -> dict[str, bytes]:
        return dict(self._all("SELECT aggregator, word FROM ends WHERE digest = ?", digest))

    # ------------------------------------------------------------ rounds

    def advance(
        self,
        digest: bytes,
        round_index: int,
        question: bytes,
        points: Mapping[bytes, bytes],
        checkpoint: bytes,
        record: RoundRecord | None,
        statements: Sequence[bytes] = (),
    ) -> None:
        """Begin `round_index`: its question, the state to resume from, and of the round before its record and both
        servers' signed statements.
        """
        with self._transaction() as database:
            changed = database.execute(
                "UPDATE runs SET round = ?, question = ?, checkpoint = ? WHERE digest = ? AND round <= ?",
                (round_index, question, checkpoint, digest, round_index),
            ).rowcount
            if not changed:
                raise StateError(f"round {round_index} lies behind this run: two processes share one state folder")
            for point, data in points.items():
                database.execute("INSERT INTO points VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (digest, point, data))
            marks = ",".join("?" * len(points))
            database.execute(f"DELETE FROM points WHERE digest = ? AND point NOT IN ({marks})", (digest, *points))
            self._note(database, digest, record, statements)

    def finish(
        self, digest: bytes, theta: Floats, evaluation: Mapping[str, Any], record: RoundRecord,
        statements: Sequence[bytes] = (),
    ) -> None:  # fmt: skip
        """The last round's record and the result; the run goes on to its end."""
        with self._transaction() as database:
            database.execute(
                "UPDATE runs SET state = ?, round = ?, question = NULL, theta = ?, evaluation = ? WHERE digest = ?",
                (State.ending, record.round + 1, theta.astype("<f8").tobytes(), json.dumps(evaluation), digest),
            )
            database.execute("DELETE FROM points WHERE digest = ?", (digest,))
            self._note(database, digest, record, statements)

    def question(self, digest: bytes) -> tuple[int, bytes, dict[bytes, bytes], bytes] | None:
        """Round, question, points and checkpoint; None before the first round and after the last."""
        with self._lock:
            (row,) = self._all("SELECT round, question, checkpoint FROM runs WHERE digest = ?", digest)
            if row[1] is None:
                return None
            points = dict(self._all("SELECT point, data FROM points WHERE digest = ?", digest))
            return row[0], row[1], points, row[2]

    def theta(self, digest: bytes) -> Floats | None:
        """The result of a run that has one."""
        found = self._all("SELECT theta FROM runs WHERE digest = ?", digest)
        return np.frombuffer(found[0][0], "<f8").copy() if found and found[0][0] is not None else None

    def history(self, digest: bytes, since: int = 0, last: int | None = None) -> list[RoundRecord]:
        """Records of the rounds from `since`, or the `last` ones, in order."""
        rows = self._all(
            "SELECT record FROM history WHERE digest = ? AND round >= ? ORDER BY round DESC LIMIT ?",
            digest, since, -1 if last is None else last,
        )  # fmt: skip
        return [RoundRecord(**json.loads(record)) for (record,) in reversed(rows)]

    def put_examples(self, digest: bytes, round_index: int, body: Sequence[Mapping[str, Any]]) -> None:
        """What the model after this round says of some public pictures: of the newest round that was tried alone."""
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO examples VALUES (?, ?, ?)", (digest, round_index, json.dumps(body))
            )

    def examples(self, digest: bytes) -> tuple[int, list[dict[str, Any]]] | None:
        """Round and examples; None where there are none, as in what an earlier version wrote."""
        try:
            found = self._all("SELECT round, body FROM examples WHERE digest = ?", digest)
        except sqlite3.OperationalError:
            return None
        return (found[0][0], json.loads(found[0][1])) if found else None

    def statements(self, digest: bytes) -> list[bytes]:
        """Both servers' words about the newest opened round, A's first."""
        rows = self._all(
            "SELECT word FROM statements WHERE digest = ? AND round = "
            "(SELECT MAX(round) FROM statements WHERE digest = ?) ORDER BY place",
            digest, digest,
        )  # fmt: skip
        return [word for (word,) in rows]

    def _note(
        self, database: sqlite3.Connection, digest: bytes, record: RoundRecord | None, statements: Sequence[bytes]
    ) -> None:
        if record is not None:
            database.executemany(
                "INSERT INTO statements VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(digest, record.round, place, word) for place, word in enumerate(statements)],
            )
            database.execute(
                "INSERT INTO history VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (digest, record.round, json.dumps(asdict(record))),
            )


_COLUMNS = "digest, run, manifest, state, outcome, submitted, started, ended, round, claim, evaluation"


def _row(row: Sequence[Any]) -> RunRow:
    digest, run, manifest, state, outcome, submitted, started, ended, round_index, claim, evaluation = row
    return RunRow(
        digest=digest,
        run=run,
        manifest=manifest,
        state=State(state),
        outcome=outcome,
        submitted=submitted,
        started=started,
        ended=ended,
        round=round_index,
        claim=json.loads(claim),
        evaluation=json.loads(evaluation),
    )


def pack(arrays: Mapping[str, Floats]) -> bytes:
    """A checkpoint: names and shapes as JSON, then the numbers."""
    head = json.dumps([[name, list(value.shape)] for name, value in arrays.items()]).encode()
    body = b"".join(np.ascontiguousarray(value, "<f8").tobytes() for value in arrays.values())
    return struct.pack("<I", len(head)) + head + body


def unpack(data: bytes) -> dict[str, Floats]:
    """The inverse of `pack`."""
    (size,) = struct.unpack_from("<I", data)
    at, arrays = 4 + size, {}
    for name, shape in json.loads(data[4:at]):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, "<f8", count, at).reshape(shape).copy()
        at += 8 * count
    return arrays
