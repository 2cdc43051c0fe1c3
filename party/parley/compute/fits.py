"""A study's fits over the workers of a cluster: whoever simulates has all records, and its workers get them too.

Each fit is played by one worker in the same code as here, with the same key: where a run is repeatable, its figures are
the same to the bit. Records travel to workers as a party's do (`parley.compute.worker`), pickled, by this very process.
"""

import contextlib
import pickle
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from parley.compute.cluster import Cluster
from parley.compute.errors import LostError
from parley.compute.link import COMMAND, Link
from parley.errors import ParleyError

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")
LONG_SECONDS = 1e7
MOST_STARTS = 3
"""Ray gives a cluster of this machine half a minute to start, which a busy machine may miss."""


class FitPool:
    """A cluster that plays fits, from the first one on; a context, so that nothing is left of it."""

    def __init__(self, cluster: Cluster, command: Sequence[str] = COMMAND) -> None:
        self.cluster, self.command = cluster, command
        self._link: Link | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def spread(self, run: Callable[[Wanted], Found], wanted: Sequence[Wanted]) -> list[Found]:
        """`run` of every one, in order."""
        link = self._link = self._link or self._started()
        work = [pickle.dumps(each) for each in wanted]
        order: dict[str, Any] = {"do": "fits", "sizes": [len(each) for each in work], "seconds": LONG_SECONDS}
        arrays = [np.frombuffer(each, np.uint8) for each in (pickle.dumps(run), b"".join(work))]
        frame = link.asked(order, arrays)
        if (lost := frame.header.get("lost")) is not None:
            raise LostError(f"{lost}: run it without --backend ray to see why")
        found, start = list[Found](), 0
        for size in frame.header["sizes"]:
            result = pickle.loads(frame.arrays[0][start : start + size].tobytes())
            if isinstance(result, ParleyError):
                raise result
            found.append(result)
            start += size
        return found

    def _started(self) -> Link:
        for _ in range(0 if self.cluster.address is not None else MOST_STARTS - 1):
            with contextlib.suppress(LostError):
                return self._dialled()
        return self._dialled()

    def _dialled(self) -> Link:
        return Link(self.cluster, threading.Event(), self.command, of="fits")
