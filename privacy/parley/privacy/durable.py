"""Small files that survive a crash: whole or as they were, mode 600, on the disk when this returns."""

import os
from collections.abc import Callable
from pathlib import Path

PRIVATE = 0o600


def replace_durably(path: Path, text: str, give: Callable[[int], None] = lambda handle: None) -> None:
    """After a crash either the old or the new content is there. `give` may hand the open file to another owner."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)  # of a crash, and of whatever mode
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE)
    try:
        with os.fdopen(handle, "w") as file:
            give(file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    force(path.parent)


def force(path: Path) -> None:
    """A file, or a folder's entries, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
