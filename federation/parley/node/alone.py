"""One process on a node's folder: two would answer, and spoil each other's state. The lock goes with its process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.federation.names import Role
from parley.node.errors import NodeError
from parley.node.upgrade import forget


def only_one(state: Path, role: Role) -> int:
    """An open file that is locked until it is closed; a NodeError where another process has it."""
    path = state / f"{role}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise NodeError(
            f"another process of this {role} is running on this folder: stop it first (`fuser {path}` shows it)"
        ) from None
    return handle


@contextmanager
def alone(state: Path, role: Role) -> Iterator[None]:
    """For as long as a server's process works on the folder."""
    state.mkdir(mode=0o700, exist_ok=True)
    handle = only_one(state, role)
    try:
        forget(state)
        yield
    finally:
        os.close(handle)
