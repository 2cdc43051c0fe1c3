"""Workers on a cluster, as the process that speaks with Ray has them: hired, told something, heard, fetched from."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import GetTimeoutError, RayError

from parley.compute.worker import PIECE, Worker

Array = NDArray[Any]

IN_FLIGHT = 64
"""Pieces on their way to one worker: 4 MiB."""
CPUS = 1
LOST = (RayError, GetTimeoutError)


class Crew:
    """By number. Neither restarted nor asked again by Ray: who is asked what, and how often, is said elsewhere."""

    def __init__(self, kind: type[Worker], device: str) -> None:
        self._class = ray.remote(
            num_cpus=CPUS, num_gpus=1 if device == "cuda" else 0, max_restarts=0, max_task_retries=0,
            scheduling_strategy="SPREAD",
        )(kind)  # fmt: skip
        self._workers: dict[int, Any] = {}

    def hire(self, names: Sequence[int], seconds: float) -> list[dict[str, Any]]:
        """New ones, in the place of those that had these numbers."""
        for name in names:
            if (old := self._workers.pop(name, None)) is not None:
                with contextlib.suppress(RayError):
                    ray.kill(old, no_restart=True)
            self._workers[name] = self._class.remote()
        refs = {name: self._workers[name].give.remote(0) for name in names}
        return [self._heard(name, ref, seconds) for name, ref in refs.items()]

    def _heard(self, name: int, ref: Any, seconds: float) -> dict[str, Any]:
        try:
            ray.get(ref, timeout=seconds)
        except LOST as error:
            return {"worker": name, "state": "lost", "kind": type(error).__name__}
        return {"worker": name, "state": "done"}

    def tell(self, name: int, order: dict[str, Any], arrays: Sequence[Array], seconds: float) -> list[Any]:
        """Pieces and the word what to do with them, without waiting for it; the last is the answer's."""
        worker = self._workers[name]
        refs: list[Any] = []
        for piece in pieces(arrays):
            refs.append(worker.take.remote(piece))
            if len(refs) > IN_FLIGHT:
                # Waits where a worker is slow to take them; whoever is lost says so at the end.
                ray.wait([refs[-IN_FLIGHT]], timeout=seconds)
        text = json.dumps({**order, "arrays": [[each.dtype.name, list(each.shape)] for each in arrays]})
        return [*refs, worker.act.remote(text)]

    def reply(self, name: int, refs: Sequence[Any], seconds: float) -> dict[str, Any]:
        """What a worker says to what it was told."""
        try:
            said = json.loads(ray.get(list(refs), timeout=seconds)[-1])
        except LOST as error:
            return {"worker": name, "state": "lost", "kind": type(error).__name__}
        return {**said, "worker": name}

    def fetch(self, name: int, size: int, seconds: float) -> bytes | None:
        """An answer of this length; None where the worker is lost or has another."""
        refs = [self._workers[name].give.remote(start) for start in range(0, size, PIECE)]
        try:
            data = b"".join(ray.get(refs, timeout=seconds))
        except LOST:
            return None
        return data if len(data) == size else None


def pieces(arrays: Sequence[Array]) -> Iterator[bytes]:
    """The bytes of all arrays, one after another; small ones share a piece."""
    held = bytearray()
    for each in arrays:
        data = np.ascontiguousarray(each).reshape(-1).view(np.uint8)
        start = 0
        while start < len(data):
            taken = min(PIECE - len(held), len(data) - start)
            held += data[start : start + taken].tobytes()
            start += taken
            if len(held) == PIECE:
                yield bytes(held)
                held = bytearray()
    if held:
        yield bytes(held)
