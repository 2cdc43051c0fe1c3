"""A party's end of the pipes to the process that speaks with its cluster (`parley.compute.foreman`)."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.compute.cluster import Cluster
from parley.compute.errors import ComputeError, EngineStoppedError, LostError
from parley.models.frames import Array, Deadline, Due, Frame, FrameError, read, write

COMMAND = (sys.executable, "-P", "-m", "parley.compute")
START_SECONDS = 180.0
"""A cluster takes some ten seconds to start, on a machine that is busy a minute."""
GRACE_SECONDS = 30.0
"""More than what the other end was given for an order."""
END_SECONDS = 10.0


class Link:
    """One process, from its start to its end; a LostError where it is gone, late, or says what was not due."""

    def __init__(
        self, cluster: Cluster, stop: threading.Event, command: Sequence[str] = COMMAND, of: str = "run"
    ) -> None:
        """`of`: a party's `run`, or somebody's own `fits`."""
        cluster.check()
        self.stop = stop
        # Short, for Ray's sockets are in it; for this user alone, for its logs are too.
        self.folder = Path(tempfile.mkdtemp(prefix="parley-"))
        self.process = subprocess.Popen(
            [*command, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=cluster.environment(self.folder),
            cwd=self.folder,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()
        for handle in (self._to, self._from):
            os.set_blocking(handle, False)
        try:
            said = self.asked({"do": "start", "of": of, "cluster": cluster.as_json(), "seconds": START_SECONDS}).header
            if (lost := said.get("lost")) is not None:
                raise ComputeError(str(lost)) if said.get("kept") else LostError(str(lost))
        except BaseException:
            self.close()
            raise

    def asked(self, order: Mapping[str, Any], arrays: Sequence[Array] = (), due: Sequence[Due] | None = None) -> Frame:
        """The frame that answers this one; `seconds` of the order and some more are waited for."""
        deadline = Deadline(time.monotonic() + order["seconds"] + GRACE_SECONDS, self._gone)
        try:
            write(self._to, Frame(order, tuple(arrays)), deadline)
            return read(self._from, deadline, due)
        except FrameError as error:
            raise LostError(f"the process that speaks with the cluster is lost: {error}") from None

    def _gone(self) -> bool:
        if self.stop.is_set():
            raise EngineStoppedError("this process is ending")
        return self.process.poll() is not None

    def close(self) -> None:
        """What it has started ends with it, by itself where it can."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
