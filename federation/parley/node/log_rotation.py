"""A file of lines that its owner alone may read, and that stays small."""

import os
import stat
import threading
from pathlib import Path

LARGEST_BYTES = 10 << 20
KEPT = 4
"""Older files beside the one that is written: log.jsonl.1 to .4."""


class RotatingFile:
    """Lines of text, each written whole; several threads may write."""

    def __init__(self, path: Path, largest_bytes: int = LARGEST_BYTES) -> None:
        self._path, self._largest, self._lock = path, largest_bytes, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._handle: int | None = self._open()

    def _open(self) -> int:
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if stat.S_IMODE(os.fstat(handle).st_mode) != 0o600:
            os.fchmod(handle, 0o600)
        self._size = os.fstat(handle).st_size
        return handle

    def write(self, line: str) -> None:
        """A full disk loses the line and not the run."""
        data = line.encode() + b"\n"
        with self._lock:
            if self._handle is None:
                return
            try:
                if self._size + len(data) > self._largest and self._size:
                    self._rotate()
                self._size += os.write(self._handle, data)
            except OSError:
                return

    def _rotate(self) -> None:
        for number in range(KEPT - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        fresh = self._open()
        if self._handle is not None:
            os.close(self._handle)
        self._handle = fresh

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def close(self) -> None:
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
