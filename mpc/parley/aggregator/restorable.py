"""What a server's store says of its own past: that it was restored from a backup, and which runs it lost by that.

A restored server goes on with no run that was open when its backup was made: it opens nothing more of it, and signs no
end. Of runs that it admitted later it knows nothing: every word that it signs from now on says so, by 16 bytes that
were drawn when it was restored, and uploads on an earlier word are refused.
"""

import sqlite3
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

RESTORING = {
    "restored": "word BLOB NOT NULL, made INTEGER NOT NULL, at INTEGER NOT NULL",
    "lost": "run TEXT NOT NULL",
    "settled": "run TEXT NOT NULL, word BLOB NOT NULL",
}
"""`settled` has the runs that had ended before, and what was drawn before that: their ends are known, and stay good."""


@dataclass(frozen=True)
class Restored:
    """One time that the server was restored."""

    word: bytes
    """Drawn then."""
    made: int
    """When the backup was made, in seconds since 1970."""
    at: int


class Restorable(ABC):
    """The part of the store of openings that knows of it."""

    _database: sqlite3.Connection
    _lock: threading.Lock

    @abstractmethod
    def _row(self, table: str, *key: str | int | bytes) -> tuple[Any, ...] | None: ...

    @abstractmethod
    def _write(self, table: str, *row: bytes | str | int, how: str = "INSERT") -> int: ...

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]: ...

    def put_back(self, word: bytes, made: int, at: int, admitted: list[str]) -> list[str]:
        """This store is one of `made`: every run on record that has not ended is lost. Which they are."""
        with self._transaction():
            self._write("restored", word, made, at)
            known = self._database.execute("SELECT run FROM openings UNION SELECT run FROM counts").fetchall()
            runs = {run for (run,) in known} | set(admitted)
            ended, lost = self._names("ended"), self._names("lost")
            before = self._newest(word)
            for run in sorted(ended - self._names("settled")):
                self._write("settled", run, before)
            for run in sorted(runs - ended - lost):
                self._write("lost", run)
            self._database.execute("DELETE FROM shares")
        return sorted(runs - ended - lost)

    def restorations(self) -> list[Restored]:
        """Oldest first."""
        with self._lock:
            with closing(self._database.execute("SELECT word FROM restored ORDER BY rowid")) as rows:
                words = [word for (word,) in rows.fetchall()]
            return [Restored(*row) for word in words if (row := self._row("restored", word)) is not None]

    def word(self, run: str) -> bytes:
        """What an end of this run is signed with: empty where the server was never restored before it ended."""
        with self._lock:
            found = self._row("settled", run)
            return found[1] if found is not None else self._newest()

    def _names(self, table: str) -> set[str]:
        return {run for (run,) in self._database.execute(f"SELECT run FROM {table}").fetchall()}

    def _newest(self, but: bytes = b"") -> bytes:
        query = "SELECT word FROM restored WHERE word != ? ORDER BY rowid DESC LIMIT 1"
        found = self._database.execute(query, (but,)).fetchone()
        return bytes(found[0]) if found is not None else b""

    def lost(self, run: str) -> bool:
        """Whether it was open when a backup was made that this store comes from."""
        with self._lock:
            return self._row("lost", run) is not None
