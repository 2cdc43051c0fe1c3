"""Where a coordinator and its operator meet: a Unix socket in the coordinator's state folder, however deep that lies.

A socket's address holds about a hundred bytes. A longer path is reached through an open handle of its folder, which
the kernel offers under /proc: the same folder, mode 700, and the same socket, mode 600, with nothing left elsewhere.
"""

import os
from pathlib import Path
from typing import Self

from parley.coordinator.errors import StateError

SOCKET = "operator.sock"
LONGEST_PATH = 100
HANDLES = Path("/proc/self/fd")


class SocketAddress:
    """As gRPC takes it, in `text`; good until it is closed. A client's and a server's alike."""

    def __init__(self, folder: Path) -> None:
        self.path = folder.absolute() / SOCKET
        self._handle = -1
        short = self.path
        if len(os.fsencode(self.path)) > LONGEST_PATH:
            if not HANDLES.is_dir():
                raise StateError(f"{self.path} is too long for a Unix socket here: use a folder with a shorter path")
            try:
                self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise StateError(f"{folder} cannot be entered ({error.strerror}): check the node's folder") from None
            short = HANDLES / str(self._handle) / SOCKET
        self.text = f"unix:{short}"

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
