"""A process in the place of one with a module: it does what its question says. `parley.models.child` runs it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from parley.models.frames import Deadline, Frame, read, write


def main(commands: int, answers: int, parent: int) -> None:
    assert parent == os.getppid()
    while True:
        frame = read(commands, Deadline())
        what, array = frame.header["ask"], np.arange(3, dtype=np.int64)
        if what == "exit":
            os._exit(3)
        if what == "abort":
            os.abort()
        if what == "hang":
            time.sleep(600)
        if what == "print":
            print("x" * 100_000, flush=True)
            os.write(2, b"y" * 100_000)
            write(answers, Frame({}, (array,)), Deadline())
        if what == "fork":
            # The grandchild keeps a copy of the pipe open after this process is gone.
            if os.fork() == 0:
                Path(frame.header["note"]).write_text(str(os.getpid()))
                time.sleep(600)
            os._exit(4)
        if what == "session":
            started = subprocess.Popen(["sleep", "600"], start_new_session=True)
            write(answers, Frame({"started": started.pid}, (array,)), Deadline())
        if what == "garbage":
            os.write(answers, b"\xff" * 4096)
            time.sleep(600)
        if what == "half":
            os.write(answers, (1 << 10).to_bytes(8, "little") + b"{")
            os._exit(0)
        if what == "long":
            write(answers, Frame({}, (np.arange(1 << 20),)), Deadline())
        if what == "lost":
            write(answers, Frame({"lost": frame.header.get("kind", "ValueError")}), Deadline())
        if what == "refused":
            write(answers, Frame({"refused": "use\nnn.GroupNorm \x1b[31m" + "z" * 10_000}), Deadline())
        if what == "sees":
            handles = {os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if int(each) < 3}
            told = {"environment": sorted(os.environ), "folder": os.getcwd(), "handles": sorted(handles)}
            write(answers, Frame(told), Deadline())
        if what == "echo":
            write(answers, Frame({"said": frame.header["said"]}, frame.arrays), Deadline())


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:4]))
