"""A party's sums over the workers of a cluster: an `Engine` that has the records in shards.

The party alone draws the batch. Each worker gets a list of one public length, computes in chunks of one public shape
and returns an exact sum of integers, so the answer is the same to the bit for any number of workers, whoever is lost
meanwhile, but for networks whose numbers differ in a last bit with a record's place (docs/operations.md). A lost worker
is hired again and asked again; while the cluster is lost the party is late. What workers say is compared with what they
were asked: which run and question, how long, no longer a vector than so many records can make.

The answer leaves at a time that follows from public facts (`parley.learning.slots`): every form of question is asked of
public rows first, for how long it takes, and to see that all workers compute the same integers.
"""

import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.compute.cluster import Cluster
from parley.compute.errors import (
    ComputeError,
    EngineLateError,
    EngineStoppedError,
    LostError,
    WorkerFailedError,
)
from parley.compute.link import COMMAND, Link
from parley.compute.questions import Question
from parley.compute.shards import Asked, as_arrays, chunk_length, list_length, lists, made_up, shard
from parley.learning.encoding import Scale
from parley.learning.records import Records
from parley.learning.slots import Slots
from parley.models.child import known_error
from parley.models.module_spec import is_module
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.randomness import SystemRandomness
from parley.privacy.sampling import Batch

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_DEATHS = 4
"""Of one worker over one question: then the run is left, for a record might be why."""
HIRE_SECONDS, ASK_SECONDS = 120.0, 60.0
SLOWEST_BYTES = 1 << 20
"""A second, of records on their way to a worker."""
PATIENCE = 20
"""Slots that a worker has for an answer before it counts as lost."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
AWAY_SECONDS = 300.0
"""That one question waits for the cluster; then its asker hears whether the run still wants an answer."""
SEARCH_PASSES = 16
"""At most, of one chunk, until a record is found that makes a module raise (`parley.models.chunks`)."""
PUBLIC_UNITS = 64
PUBLIC, PRIVATE = "public", "records"


@dataclass(frozen=True)
class Named:
    """The model of a run, as its manifest has it: what a worker opens for itself."""

    model: Mapping[str, Any]
    schema: Mapping[str, Any]
    dimension: int


@dataclass
class RayEngine:
    """One run's workers, from the first question to `close`."""

    cluster: Cluster
    records: Records
    named: Named
    stop: threading.Event = field(default_factory=threading.Event)
    say: Callable[[ComputeError], None] = lambda error: None
    """Told what the operator should know: public facts, each once."""
    command: Sequence[str] = COMMAND
    away_seconds: float = AWAY_SECONDS
    slots: Slots = field(init=False)
    busy_seconds: float | None = field(default=None, init=False)
    """Of the newest answer, before it was held back: for `parley party status` at this party, and no other eyes."""

    def __post_init__(self) -> None:
        self.workers = min(self.cluster.workers, self.records.units)
        self.slots = Slots(self.stop)
        self._run = secrets.token_hex(16)
        self._number = 0
        self._link: Link | None = None
        self._open: set[int] = set()
        self._public: tuple[Question, tuple[Floats, ...], int, int, Integers] | None = None
        """The newest question about public rows, its lists' length and chunk, and what every worker answers."""
        self._pause, self._said = FIRST_PAUSE, ""
        self._losses = 0

    def start(self) -> None:
        """Hire the workers, if that goes at once; a question does it else, as often as it takes."""
        try:
            self._ready()
        except ComputeError as error:
            self._lost(error)

    def gradients(
        self, batch: Batch, points: tuple[Floats, ...], terms: Terms, lattice: Lattice, scale: Scale
    ) -> Integers:
        return self._answer(Question("gradients", lattice, scale, terms), batch, points)

    def losses(
        self, batch: Batch, points: tuple[Floats, ...], times: float, lattice: Lattice, scale: Scale
    ) -> Integers:
        return self._answer(Question("losses", lattice, scale, times=times), batch, points)

    def norms(self, batch: Batch, point: Floats, top: float, scale: Scale) -> Integers:
        # A histogram counts on no lattice; any that has this step would do.
        return self._answer(Question("norms", Lattice(1.0), scale, times=top), batch, (point,))

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
        self._open.clear()

    def _answer(self, question: Question, batch: Batch, points: tuple[Floats, ...]) -> Integers:
        form = (question.kind, len(points), len(batch.indices))
        per_unit = self.records.records_per_unit
        width = per_unit * max(self.records.rows.dimension, self.named.dimension if per_unit > 1 else 1)
        chunk = chunk_length(len(batch.indices), width)
        length = list_length(len(batch.indices), self.records.units, self.workers, chunk)
        if form not in self.slots.seconds:
            taken = self._measured(question, points, length, chunk)
            self.slots.measured(form, taken, self._search_seconds(taken, length // chunk))
        seconds = max(ASK_SECONDS, PATIENCE * self.slots.slot(form))
        began, losses = time.monotonic(), self._losses
        try:
            parts = lists(batch, self.workers, length, SystemRandomness())
            found = [self._until_answered(PRIVATE, question, points, asked, chunk, seconds) for asked in parts]
            self.busy_seconds = time.monotonic() - began
        finally:
            if not self.slots.wait(form, began, lost=self._losses > losses):
                raise EngineStoppedError("this process is ending")
        return np.asarray(np.sum([each.sum(axis=0) for each in found], axis=0, dtype=np.int64))

    def _search_seconds(self, taken: float, chunks: int) -> float:
        """For one record that makes a module raise, at every point; none makes a model of parley's own raise."""
        return SEARCH_PASSES * taken / chunks if is_module(self.named.model.get("kind")) else 0.0

    def _measured(self, question: Question, points: tuple[Floats, ...], length: int, chunk: int) -> float:
        """How long this form of question takes about public rows and points: the second time, when all is warm."""
        made = tuple(0.1 * np.sin(np.arange(len(point)) + number) for number, point in enumerate(points))
        asked, first = _of_public(self.workers, length), time.monotonic()
        while True:
            for _ in range(2):
                began = time.monotonic()
                found = self._until_answered(PUBLIC, question, made, asked, chunk, ASK_SECONDS)
            taken = time.monotonic() - began
            if (found == found[0]).all():
                break
            self._lost(LostError("workers compute other integers of the same public rows: use equal machines"))
            self._require_soon(first)
        self._public = (question, made, length, chunk, found[0])
        return taken

    def _until_answered(
        self, of: str, question: Question, points: tuple[Floats, ...], asked: Asked, chunk: int, seconds: float
    ) -> Integers:
        """int64[workers, answer]: of each worker its own, however often it or all of them are lost."""
        found = np.zeros((self.workers, question.length(self.named.dimension, len(points))), np.int64)
        missing, deaths, began = list(range(self.workers)), Counter[int](), time.monotonic()
        while missing:
            try:
                self._ready()
                answers = self._ask(missing, of, question, points, asked, chunk, seconds)
            except ComputeError as error:
                self._lost(error)
                self._require_soon(began)
                continue
            for worker, answer in answers.items():
                if answer is None:
                    deaths[worker] += 1
                    self._losses += 1
                    self._open.discard(worker)
                else:
                    found[worker] = answer
            missing = [worker for worker in missing if answers[worker] is None]
            if any(deaths[worker] >= MOST_DEATHS for worker in missing):
                raise WorkerFailedError("a worker is lost whenever it is asked")
        return found

    def _ask(
        self, names: Sequence[int], of: str, question: Question, points: tuple[Floats, ...], asked: Asked, chunk: int,
        seconds: float,
    ) -> dict[int, Integers | None]:  # fmt: skip
        """Each worker's answer, or none where it is lost or has said what it was not asked."""
        assert self._link is not None
        self._number += 1
        echo = {"run": self._run, "number": self._number}
        length = question.length(self.named.dimension, len(points))
        order = {
            "do": "ask", "of": of, "workers": list(names), "seconds": seconds, "chunk": chunk, "length": length,
            "echo": echo, "question": question.as_json(),
        }  # fmt: skip
        arrays = (asked.places[names], asked.present[names], np.stack(points))
        frame = self._link.asked(order, arrays, [("int64", (len(names), length))])
        replies = frame.header.get("replies")
        if not isinstance(replies, list) or len(replies) != len(names) or not frame.arrays:
            raise LostError("the process that speaks with the cluster answers what it was not asked")
        found: dict[int, Integers | None] = {}
        for row, (worker, reply) in enumerate(zip(names, replies, strict=True)):
            if isinstance(reply, dict) and reply.get("state") == "failed":
                raise WorkerFailedError(f"a worker could not compute its part ({known_error(reply.get('kind'))})")
            right = is_answer(reply, {**echo, "worker": worker}, frame.arrays[0][row], asked.present[worker], question)
            found[worker] = frame.arrays[0][row] if right else None
            if not right:
                self._tell(LostError(f"worker {worker} of the cluster is lost: another one is hired"))
        return found

    def _ready(self) -> None:
        """A ComputeError unless every worker has its shard."""
        if self._link is None:
            self._open.clear()
            self._link = Link(replace(self.cluster, workers=self.workers), self.stop, self.command)
        fresh = [worker for worker in range(self.workers) if worker not in self._open]
        if not fresh:
            return
        order = {"do": "hire", "workers": fresh, "seconds": HIRE_SECONDS}
        self._require_done(self._link.asked(order).header, "hired")
        for worker in fresh:
            self._hand_over(worker)
        self._open.update(fresh)
        self._compare(fresh)
        self._pause, self._said = FIRST_PAUSE, ""

    def _hand_over(self, worker: int) -> None:
        assert self._link is not None
        header, held = as_arrays(shard(self.records, worker, self.workers))
        _, public = as_arrays(made_up(self.records, PUBLIC_UNITS))
        size = sum(each.nbytes for each in (*held, *public))
        order = {
            "do": "open", "workers": [worker], "seconds": HIRE_SECONDS + size / SLOWEST_BYTES, "records": header,
            "shard_arrays": len(held), "model": dict(self.named.model), "schema": dict(self.named.schema),
            "device": self.cluster.device,
        }  # fmt: skip
        self._require_done(self._link.asked(order, (*held, *public)).header, "ready")

    def _compare(self, names: Sequence[int]) -> None:
        """A worker that was hired again computes what all others do, of public rows."""
        if self._public is None:
            return
        question, points, length, chunk, expected = self._public
        answers = self._ask(names, PUBLIC, question, points, _of_public(self.workers, length), chunk, ASK_SECONDS)
        if any(answer is None or not np.array_equal(answer, expected) for answer in answers.values()):
            raise LostError("a worker that was hired again does not compute what the others do: use equal machines")

    def _require_done(self, header: Mapping[str, Any], what: str) -> None:
        replies = header.get("replies")
        if not isinstance(replies, list) or not replies:
            raise LostError("the process that speaks with the cluster answers what it was not asked")
        for reply in replies:
            if not isinstance(reply, dict) or reply.get("state") != "done":
                kind = _word(reply.get("kind")) if isinstance(reply, dict) else "nothing"
                raise LostError(f"a worker of the cluster is not {what} ({kind})")

    def _lost(self, error: ComputeError) -> None:
        """Begin again with another process, after a while."""
        self.close()
        self._losses += 1
        self._tell(error)
        if self.stop.wait(self._pause):
            raise EngineStoppedError("this process is ending")
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _require_soon(self, began: float) -> None:
        if time.monotonic() - began >= self.away_seconds:
            raise EngineLateError("the cluster is away: the question is due anew")

    def _tell(self, error: ComputeError) -> None:
        if str(error) != self._said:
            self._said = str(error)
            self.say(error)


def is_answer(
    reply: object, echo: Mapping[str, Any], answer: Integers, present: NDArray[np.bool_], question: Question
) -> bool:
    """Whether a worker has answered this very question, with no more than so many records can add up to."""
    if not isinstance(reply, dict) or reply.get("state") != "done" or reply.get("echo") != echo:
        return False
    most = int(present.sum()) * question.scale.limit
    if most == 0:
        return not answer.any()
    # 2^-40 is for the division: a sum of n integer vectors no longer than the limit is no longer than n times that.
    return math.sqrt(float(np.square(answer / most).sum())) <= 1 + 2.0**-40


def _of_public(workers: int, length: int) -> Asked:
    places = np.broadcast_to(np.arange(length, dtype=np.int64) % PUBLIC_UNITS, (workers, length))
    return Asked(places, np.ones((workers, length), np.bool_))


def _word(kind: object) -> str:
    """The name of a class, which is all that is said of an error."""
    return kind if isinstance(kind, str) and kind.isidentifier() and len(kind) < 64 else "unknown"
