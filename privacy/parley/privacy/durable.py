"""Small files that survive a crash: whole or as they were, mode 600, on the disk when this returns."""

import contextlib
import glob
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PRIVATE = 0o600
LEFT_SECONDS = 3600.0
"""No writer takes as long: an older file of one was left by a crash."""


def replace_durably(
    path: Path, text: str | bytes | Iterable[str], give: Callable[[int], None] = lambda handle: None
) -> None:
    """After a crash either the old or the new content is there. `give` may hand the open file to another owner.

    Text that comes in pieces is written as it comes.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.new"):  # of a crash
        with contextlib.suppress(FileNotFoundError):  # another writer was just done with it
            if left.stat().st_mtime < time.time() - LEFT_SECONDS:
                left.unlink()
    handle, name = tempfile.mkstemp(".new", f".{path.name}.", path.parent)  # a name of its own: two may write at once
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            give(file.fileno())
            for piece in [text] if isinstance(text, str | bytes) else text:
                file.write(piece if isinstance(piece, bytes) else piece.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    force(path.parent)


def stamp(path: Path) -> str:
    """Another one whenever the file was replaced or written; empty where there is none."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_ctime_ns} {status.st_ino} {status.st_size}"


def force(path: Path) -> None:
    """A file, or a folder's entries, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
