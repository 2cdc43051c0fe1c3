"""Workers of a cluster: one keeps a shard of a party's records, in memory only, and answers with exact sums.

What is said to it and what it says travels in pieces that Ray sends along with a call: a longer argument or answer
would lie in Ray's object store, a file in shared memory that may be written to disk. What goes wrong is named by its
class, so that no record's value comes into Ray's logs. Knows nothing of Ray.
"""

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.compute.questions import Question
from parley.compute.shards import from_arrays
from parley.errors import ParleyError
from parley.learning.engine import Engine, Here
from parley.learning.models import Model
from parley.learning.schema import schema_from_json
from parley.models.registry import open_model

Array = NDArray[Any]

ANY_FAILURES = 1 << 40
PIECE = 1 << 16
"""Below what Ray keeps in its object store (max_direct_call_object_size, 100 KiB)."""


class Worker(ABC):
    """Whatever it is told comes as pieces, and then a word what to do with them."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._answer = b""

    def take(self, piece: bytes) -> None:
        """In order."""
        self._pieces.append(piece)

    def act(self, text: str) -> str:
        """Do what the pieces are for; the answer waits in pieces."""
        try:
            order = json.loads(text)
            arrays, self._pieces = _arrays(b"".join(self._pieces), order.pop("arrays")), []
            found = self._do(order, arrays)
            self._answer = b"" if found is None else found.tobytes()
            said = {"state": "done", "echo": order.get("echo"), "bytes": len(self._answer)}
        except Exception as error:
            # Its message might hold a record's value.
            self._pieces, self._answer = [], b""
            said = {"state": "failed", "kind": type(error).__name__}
        return json.dumps(said)

    def give(self, start: int) -> bytes:
        """A piece of the answer."""
        return self._answer[start : start + PIECE]

    @abstractmethod
    def _do(self, order: dict[str, Any], arrays: list[Array]) -> Array | None:
        """The answer, if there is one."""


class ShardWorker(Worker):
    """Of a party's run: one shard."""

    def __init__(self) -> None:
        super().__init__()
        self._engines: dict[str, Engine] = {}
        self._model: Model | None = None

    def _do(self, order: dict[str, Any], arrays: list[Array]) -> Array | None:
        if order["do"] == "open":
            schema = schema_from_json(order["schema"])
            self._model = model = open_model(order["model"], schema, device=order["device"], threads=1)
            count = order["shard_arrays"]
            self._engines = {
                "records": Here(from_arrays(order["records"], arrays[:count]), model),
                "public": Here(from_arrays(order["records"], arrays[count:]), model),
            }
            return None
        places, present, *points = arrays
        question = Question.of(order["question"])
        engine = self._engines[order["of"]]
        if (chunks := getattr(self._model, "chunks", None)) is not None:  # a user's module's
            # A slot has room to find one record that makes it raise: with more of them the run is left.
            chunks.failures = len(points[0]) if order["of"] == "records" else ANY_FAILURES
        return question.answered(engine, tuple(points[0]), places, present, order["chunk"])


class FitWorker(Worker):
    """Of somebody's own simulation: it plays whole federations. What it is given is that process's own, and pickled."""

    def __init__(self) -> None:
        super().__init__()
        self._run: Callable[[Any], Any] | None = None

    def _do(self, order: dict[str, Any], arrays: list[Array]) -> Array | None:
        given = pickle.loads(arrays[0].tobytes())
        if order["do"] == "keep":
            self._run = given
            return None
        assert self._run is not None
        try:
            found = self._run(given)
        except ParleyError as error:  # in words for whoever simulates
            found = error
        return np.frombuffer(pickle.dumps(found), np.uint8)


def _arrays(data: bytes, described: list[list[Any]]) -> list[Array]:
    found, start, view = [], 0, memoryview(data)
    for name, shape in described:
        kind = np.dtype(name)
        size = kind.itemsize * int(np.prod(shape, dtype=object))
        found.append(np.frombuffer(view[start : start + size], kind).reshape(shape))
        start += size
    if start != len(data):
        raise ValueError("pieces of another length than was said")
    return found
