"""A user's module in a process of its own, as a party's engine and as a coordinator's model. No torch in this process.

What a party answers leaves at a moment that public facts fix: a slot is the public length of the batch, at the speed
that public inputs were computed at, with a margin, and with room for a record that has to be looked for. An answer that
is not there by then leaves at a longer one (`parley.learning.slots`). A module that crashes or hangs is lost for good:
its party leaves the run (parley.party.run).
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parley.federation.question import BUCKETS
from parley.learning.encoding import Scale
from parley.learning.records import Records
from parley.learning.rows import Block
from parley.learning.slots import Pace
from parley.models.child import Child, ModuleLostError, ModuleRefusedError
from parley.models.frames import Array, Due
from parley.models.module_spec import ModuleSpec
from parley.models.serve import count_to_json, records_to_frame, spec_to_frame
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MARGIN = 3.0
"""A slot over the seconds that its work took on public inputs."""
SHORTEST_SLOT = 0.05
PATIENCE_SECONDS = 600.0
"""Most that a first start, a check or an answer may take."""


@dataclass(frozen=True)
class Checked:
    """What the process found out on public inputs before it had any record. All of it may be told."""

    dimension: int
    route: str
    chunk: int
    """Records that are computed at once."""
    chunk_seconds: float
    """Of a processor, for one chunk at one point."""
    parameters: tuple[tuple[str, tuple[int, ...]], ...]


class Slots:
    """How long public lengths take; `pace` is what every slot is longer by."""

    def __init__(self, chunk: int, chunk_seconds: float) -> None:
        self._chunk, self._seconds, self.pace = chunk, chunk_seconds, Pace()

    def slot(self, records: int, points: int) -> float:
        """Of so many records, in whole chunks, at so many points."""
        chunks = math.ceil(max(1, records) / self._chunk)
        # A record that makes the module raise is found by halves (parley.models.chunks): one of them, at every point.
        passes = MARGIN * chunks + 2 * math.ceil(math.log2(self._chunk)) + 2
        return max(SHORTEST_SLOT, passes * points * self._seconds)


class Apart:
    """The process, from its start on. Of one thread."""

    def __init__(self, child: Child, spec: ModuleSpec, outputs: int, checked: Checked, patience: float) -> None:
        self.spec, self.outputs = spec, outputs
        self._child, self._checked, self._patience = child, checked, patience
        self.slots = Slots(checked.chunk, checked.chunk_seconds)
        self._records_per_unit = 1
        self.busy_seconds: float | None = None
        """Of the newest answer, before it was held back: for `parley party status` at this party, and no other eyes."""

    @classmethod
    def start(
        cls,
        spec: ModuleSpec,
        outputs: int,
        records: Records | None = None,
        *,
        device: str = "cpu",
        threads: int = 1,
        chunk: int | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> Self:
        """Opened and checked: digest, bytes, validator, probe, isolation. A ModuleRefusedError says what is wrong.

        All of that is before the process has a record; `records` come after it.
        """
        child = Child(threads)
        try:
            told = {"outputs": outputs, "device": device, "threads": threads, "chunk": chunk}
            body, reach = spec_to_frame(spec)
            answer = child.ask({"ask": "open", "spec": body, **told}, (reach,), seconds=patience)
            found = cls(child, spec, outputs, _checked(answer.header), patience)
            if records is not None:
                found.hold(records)
        except BaseException:
            child.close()
            raise
        return found

    def check(self) -> Checked:
        """What was found out when it was opened."""
        return self._checked

    @property
    def records_per_second(self) -> float:
        """Of one processor, gradients at one point."""
        return self._checked.chunk / self._checked.chunk_seconds

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return not self._child.lost and not self._child.gone

    def hold(self, records: Records, patience: float = PATIENCE_SECONDS) -> None:
        """The records that questions are about from now on; an answer that takes longer than that never comes."""
        header, arrays = records_to_frame(records)
        self._records_per_unit = records.records_per_unit
        self._child.ask({"ask": "records", **header}, arrays, seconds=self._patience)
        self._patience = patience

    def close(self) -> None:
        self._child.close()

    # ------------------------------------------------------------ an engine

    def gradients(
        self, batch: Batch, points: tuple[Floats, ...], terms: Terms, lattice: Lattice, scale: Scale
    ) -> Integers:
        header = {"ask": "gradients", **count_to_json(terms, lattice, scale)}
        return self._summed(header, batch, points, self.dimension)

    def losses(
        self, batch: Batch, points: tuple[Floats, ...], times: float, lattice: Lattice, scale: Scale
    ) -> Integers:
        header = {"ask": "losses", "times": times, **count_to_json(None, lattice, scale)}
        return self._summed(header, batch, points, len(points) - 1)

    def norms(self, batch: Batch, point: Floats, top: float, scale: Scale) -> Integers:
        header = {"ask": "norms", "top": top, **count_to_json(None, None, scale)}
        return self._summed(header, batch, (point,), BUCKETS)

    def _summed(self, header: dict[str, Any], batch: Batch, points: tuple[Floats, ...], length: int) -> Integers:
        """An answer about records, or a ModuleLostError, at the end of a slot."""
        slot = self.slots.slot(len(batch.indices) * self._records_per_unit, len(points))
        most = slot * self.slots.pace.factor
        while most < self._patience:
            most *= 2
        arrays = (batch.indices, batch.present, np.stack(points))
        began = time.monotonic()
        try:
            answer = self._child.ask(header, arrays, (("int64", (length,)),), seconds=most)
        finally:
            # A process that hangs is given up at the end of a slot, which is now.
            self.busy_seconds = took = time.monotonic() - began
            if took < most:
                time.sleep(max(0.0, began + self.slots.pace.leaves(slot, took) - time.monotonic()))
        return answer.arrays[0]

    def model(self) -> "PublicModel":
        """For whoever has public rows: a coordinator, which makes the first model and evaluates all of them."""
        return PublicModel(self)

    @property
    def dimension(self) -> int:
        return self._checked.dimension

    def ask(self, header: dict[str, Any], arrays: tuple[Array, ...], shape: tuple[int, ...]) -> Floats:
        """Numbers of public rows, as soon as they are there."""
        due: tuple[Due, ...] = (("float64", shape),)
        return self._child.ask(header, arrays, due, seconds=self._patience).arrays[0]


@dataclass(frozen=True)
class PublicModel:
    """A `Model` of a coordinator's: what it is asked travels with the rows, which are public."""

    apart: Apart

    @property
    def largest_limit(self) -> int:
        from parley.mpc.clip_sums import LARGEST_STEPS

        return LARGEST_STEPS

    @property
    def dimension(self) -> int:
        return self.apart.dimension

    def initial(self, words: NDArray[np.uint64]) -> Floats:
        return self.apart.ask({"ask": "initial"}, (words.view(np.int64),), (self.dimension,))

    def contribution(
        self, block: Block, targets: Floats, present: Flags, points: tuple[Floats, ...], terms: Terms, scale: Scale
    ) -> Integers:
        raise ModuleLostError("a coordinator has no records to answer with")

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return self._of("gradients", block, targets, point, (len(block), self.dimension))

    def gradient_norms(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return self._of("norms", block, targets, point, (len(block),))

    def losses(self, block: Block, targets: Floats, point: Floats) -> Floats:
        return self._of("losses", block, targets, point, (len(block),))

    def scores(self, block: Block, point: Floats) -> Floats:
        return self._of("scores", block, np.zeros(len(block)), point, (len(block), self.apart.outputs))

    def _of(self, of: str, block: Block, targets: Floats, point: Floats, shape: tuple[int, ...]) -> Floats:
        shorts = block.shorts()
        values = block.dense().astype(np.int64) if shorts is None else shorts
        return self.apart.ask({"ask": "rows", "of": of, "bits": block.bits}, (values, targets, point), shape)


def _checked(header: Mapping[str, Any]) -> Checked:
    """From a process in which a user's code has run: anything but what is due is refused."""
    try:
        parameters = tuple((str(name), tuple(int(each) for each in shape)) for name, shape in header["parameters"])
        found = Checked(
            int(header["dimension"]),
            str(header["route"]),
            int(header["chunk"]),
            float(header["chunk_seconds"]),
            parameters,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ModuleRefusedError(
            "the module's process does not say what it has opened: check it with `parley model check`"
        ) from None
    if not (found.dimension >= 1 and found.chunk >= 1 and 0 < found.chunk_seconds < math.inf):
        raise ModuleRefusedError("the module's size or speed is none: check it with `parley model check`")
    return found
