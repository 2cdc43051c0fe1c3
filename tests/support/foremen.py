"""A process that speaks frames as `parley.compute.foreman` does, with its workers in itself; it errs when told to.

    python -P foremen.py FAULT MARK FOLDER

What a worker computes is the product's own; what is wrong is how it is handed on. Each fault comes once, at the second
question about records, and leaves a mark: a file. `crash` and `never` come every time.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from parley.compute.worker import PIECE, ShardWorker
from parley.models.frames import Deadline, Frame, FrameError, read, write

AT = 2


class Foreman:
    def __init__(self, fault: str, mark: Path) -> None:
        self.fault, self.mark = fault, mark
        self.workers: dict[int, ShardWorker] = {}
        self.questions = 0
        self.last: Frame | None = None

    def do(self, order: dict[str, Any], arrays: tuple[Any, ...]) -> list[Frame]:
        names = order["workers"]
        if order["do"] == "hire":
            self.workers |= {name: ShardWorker() for name in names}
            return [Frame({"replies": [{"worker": name, "state": "done"} for name in names]})]
        if order["do"] == "open":
            return [Frame({"replies": [json.loads(_told(self.workers[names[0]], order, arrays))]})]
        self.questions += order["of"] == "records"
        places, present, points = arrays
        found, replies = np.zeros((len(names), order["length"]), np.int64), []
        for row, name in enumerate(names):
            echo = {**order["echo"], "worker": name}
            said = _told(self.workers[name], {**order, "echo": echo}, (places[row], present[row], points))
            replies.append(json.loads(said))
            if replies[-1]["state"] == "done":
                pieces = range(0, found[row].nbytes, PIECE)
                data = b"".join(self.workers[name].give(start) for start in pieces)
                found[row] = np.frombuffer(data, np.int64)
        return self._wrong(replies, found) if order["of"] == "records" else [Frame({"replies": replies}, (found,))]

    def _wrong(self, replies: list[dict[str, Any]], found: Any) -> list[Frame]:
        right = Frame({"replies": replies}, (found,))
        every_time = self.fault in ("crash", "never")
        if self.questions < AT or (self.mark.exists() and not every_time):
            self.last = right
            return [right]
        self.mark.touch()
        if self.fault == "gone":
            os._exit(1)
        if self.fault == "twice":
            return [right, right]
        if self.fault == "earlier":
            assert self.last is not None
            return [self.last]
        if self.fault == "length":
            return [Frame({"replies": replies}, (found[:, :-1],))]
        if self.fault == "run":
            replies[0]["echo"]["run"] = "00" * 16
        if self.fault == "worker" and len(replies) > 1:
            replies[0]["echo"], replies[1]["echo"] = replies[1]["echo"], replies[0]["echo"]
        if self.fault == "long":
            found[0, 0] += 1 << 40
        if self.fault in ("lost", "never"):
            replies[0], found[0] = {"worker": 0, "state": "lost", "kind": "ActorDiedError"}, 0
        if self.fault == "crash":
            replies[0], found[0] = {"worker": 0, "state": "failed", "kind": "ValueError"}, 0
        return [Frame({"replies": replies}, (found,))]


def _told(worker: ShardWorker, order: dict[str, Any], arrays: Any) -> str:
    data = b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)
    for start in range(0, len(data), PIECE):
        worker.take(data[start : start + PIECE])
    return worker.act(json.dumps({**order, "arrays": [[each.dtype.name, list(each.shape)] for each in arrays]}))


def main(fault: str, mark: Path) -> None:
    here = Deadline()
    for handle in (0, 1):
        os.set_blocking(handle, False)
    read(0, here)
    write(1, Frame({"ready": True}), here)
    foreman = Foreman(fault, mark)
    while True:
        try:
            frame = read(0, here)
        except FrameError:
            return
        for answer in foreman.do(dict(frame.header), frame.arrays):
            write(1, answer, here)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
