"""A process of its own for a user's module: started, asked, waited for until a moment, and ended by its number.

    python -P -m parley.models COMMANDS ANSWERS PARENT    # two pipes by number, and the process that it ends with

What the module writes goes nowhere, a core of it is never dumped, and it has no part of this process: not its memory,
its environment, its folder or its keys. Its own rights are those of the user who runs both: a module is allowed by
whoever answers for the records (docs/neural.md).
"""

import builtins
import contextlib
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.learning.errors import PartyError
from parley.models.frames import Array, Deadline, Due, Frame, FrameError, read, write

PROGRAM = "parley.models"
MOST_LOOKS = 20
"""For what a process has started, when it is ended: those may have started others in between."""
KEPT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"),
    *("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"),
)
"""Of this process's environment; a password for a database is none of these."""
UNHEARD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that a process inherits as blocked, before any of its code runs."""


class ModuleLostError(PartyError):
    """The process with the module has crashed, hangs, or has answered what was not asked."""

    public = True
    """It names a cause in words of this file's, and nothing that the module said."""


class ModuleRefusedError(PartyError):
    """The module cannot be run here; found on public inputs, before there is any record in its process."""

    public = True


class Child:
    """The process, from its start to its end. Of one thread: the system ends the process together with it."""

    def __init__(self, threads: int, program: str = PROGRAM) -> None:
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        for handle in (self._write, self._read):
            os.set_blocking(handle, False)
        # It ends with its pipes, its parent, or by SIGKILL. Whoever stops a node tells all of its processes to end, in
        # any order: a module that heard it first would be lost in mid-round, and its party would leave for good.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, UNHEARD)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", program, str(commands), str(answers), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(commands, answers),
                start_new_session=True,
                cwd="/",
                env=environment(threads),
            )
        except BaseException:
            os.close(self._write)
            os.close(self._read)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(commands)
            os.close(answers)
        self.lost = False
        self._end = weakref.finalize(self, _end, self.process, (self._write, self._read))

    @property
    def gone(self) -> bool:
        """Whether it has ended; its number stays its own until it is waited for."""
        if self.process.returncode is not None:
            return True
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, options) is not None

    def ask(
        self, header: dict[str, Any], arrays: Sequence[Array] = (), due: Sequence[Due] = (), *, seconds: float
    ) -> Frame:
        """Its answer, of the very arrays that are due, within so many seconds; else it is ended and lost for good."""
        if self.lost:
            raise ModuleLostError("the module's process was lost before: the run is over for it")
        deadline = Deadline(time.monotonic() + seconds, lambda: self.gone)
        try:
            write(self._write, Frame(header, tuple(arrays)), deadline)
            answer = read(self._read, deadline, due)
        except FrameError as error:
            self.lost = True
            self.close()
            raise ModuleLostError(f"the module's process does not answer: {error}") from None
        except BaseException:  # half of a frame is out: nothing can be asked any more
            self.lost = True
            self.close()
            raise
        if "refused" in answer.header:
            raise ModuleRefusedError(shown(answer.header["refused"]))
        if "lost" in answer.header:
            self.lost = True
            self.close()
            raise ModuleLostError(f"the module's process could not compute: {known_error(answer.header['lost'])}")
        return answer

    def close(self) -> None:
        """SIGKILL, to it and to whatever it has started: it has nothing to finish."""
        self._end()


def _end(process: "subprocess.Popen[bytes]", handles: Sequence[int]) -> None:
    for handle in handles:
        os.close(handle)
    if process.returncode is None:  # it was not waited for, so that its number is still its own
        process.send_signal(signal.SIGSTOP)  # it starts no other meanwhile
        for _ in range(MOST_LOOKS):
            started = _descendants(process.pid)  # in sessions of their own, too
            for each in started:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL)
            if not started:
                break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def _descendants(root: int) -> list[int]:
    """Numbers of what a process has started, directly or not, and what has not ended; none where there is no /proc."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, parent, *_ = place.read_text().rpartition(")")[2].split()
            if state not in "ZX":
                parents[int(place.parent.name)] = int(parent)
    found, fresh = list[int](), {root}
    while fresh:
        fresh = {number for number, parent in parents.items() if parent in fresh}
        found += fresh
    return found


def environment(threads: int) -> dict[str, str]:
    """What the process with the module knows of this one's."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {**kept, **counts, "PYTHONDONTWRITEBYTECODE": "1"}


MOST_SAID = 600


def shown(text: Any) -> str:
    """What another process says, as it may stand in a message: one line, not for ever."""
    line = " ".join(str(text).split())[:MOST_SAID]
    return "".join(each if each.isprintable() else "?" for each in line)


def known_error(name: Any) -> str:
    """The class of an error, where it is Python's or ours: the name of a module's own could be made of a record."""
    known = name == "TooManyFailError" or isinstance(getattr(builtins, str(name), None), type)
    return name if known else "its own error"
