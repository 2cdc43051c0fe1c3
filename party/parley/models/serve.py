"""The other end of `parley.models.child`: opens a module, takes records, answers what an engine or a model is asked.

Before any of the user's code is imported, this process says that it ends with the one that started it, that no core of
it is dumped, and that a process which the code forks has no pipe. Only `parley.models.module` knows torch.
"""

import ctypes
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from parley.learning.encoding import Scale
from parley.learning.engine import Here
from parley.learning.errors import PartyError
from parley.learning.records import Records
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.models.extractor_spec import extractor_from_json
from parley.models.frames import Array, Deadline, Frame, FrameError, read, write
from parley.models.module_spec import ModuleSpec
from parley.mpc.parts import NoiseParts
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Terms
from parley.privacy.sampling import Batch

if TYPE_CHECKING:
    from parley.models.extractor import Opened
    from parley.models.module import TorchModel

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FEWEST_MEASURED = 3
MEASURED_SECONDS = 0.2


def spec_to_frame(spec: ModuleSpec) -> tuple[dict[str, Any], Array]:
    """With what follows from the schema, which stays with whoever has it; of many columns no header has room for it."""
    return {"body": spec.body(), "whole": spec.whole}, np.array(spec.reach, np.float64)


def spec_from_frame(found: Mapping[str, Any], reach: Array) -> ModuleSpec:
    body = found["body"]
    return ModuleSpec(
        body["kind"],
        body["options"],
        tuple(body["input"]),
        body["loss"],
        body.get("digest"),
        tuple(body.get("probe", ())),
        tuple((low, high) for low, high in reach.tolist()),
        found["whole"],
    )


def records_to_frame(records: Records) -> tuple[dict[str, Any], list[Array]]:
    """Rows, targets and units; norms are computed again."""
    rows, header = records.rows, {"unit_column": records.unit_column, "row_bound": records.row_bound}
    tail = [records.targets, records.members]
    if isinstance(rows, SparseRows):
        return {**header, "bits": rows.bits, "dimension": rows.dimension}, [rows.columns, rows.values, *tail]
    assert isinstance(rows, DenseRows)
    return {**header, "bits": rows.bits}, [rows.values, *tail]


def records_from_frame(header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Records:
    rows: Rows
    if "dimension" in header:
        rows = SparseRows.of(arrays[0], arrays[1], header["bits"], header["dimension"])
    else:
        rows = DenseRows.of(arrays[0], header["bits"])
    targets, members = arrays[-2:]
    return Records(rows, targets, header["unit_column"], members, row_bound=header["row_bound"])


def count_to_json(terms: Terms | None, lattice: Lattice | None, scale: Scale | None) -> dict[str, Any]:
    """How terms are clipped and counted: the dataclasses' own fields, and no number of a record."""
    found: dict[str, Any] = {}
    if terms is not None:
        found["terms"] = asdict(terms)
    if lattice is not None:
        found["lattice"] = asdict(lattice)
    if scale is not None:
        found["scale"] = asdict(scale)
    return found


def _lattice(header: Mapping[str, Any]) -> Lattice:
    body = dict(header["lattice"])
    return Lattice(parts=NoiseParts(**body.pop("parts")), **body)


class Served:
    """What this process has: a module once it is opened, and records once they are here."""

    def __init__(self) -> None:
        self.model: TorchModel | None = None
        self.here: Here | None = None
        self.extractor: Opened | None = None
        self.answers: dict[Any, Callable[[Mapping[str, Any], tuple[Array, ...]], Frame]] = {
            "open": self._open,
            "records": self._records,
            "gradients": self._gradients,
            "losses": self._losses,
            "norms": self._norms,
            "initial": self._initial,
            "rows": self._rows,
            "extractor": self._extractor,
            "features": self._features,
        }

    def answer(self, frame: Frame) -> Frame:
        """Whatever goes wrong is answered, too: by its class alone, for its message may hold a record's value."""
        try:
            with np.errstate(all="ignore"):
                return self.answers[frame.header.get("ask")](frame.header, frame.arrays)
        except BaseException as error:  # a module may raise SystemExit, too
            return Frame({"lost": type(error).__name__})

    def _open(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        """On public inputs alone: there is no record in this process yet, so that its words may be told."""
        spec = spec_from_frame(header["spec"], arrays[0])
        try:
            from parley.models.module import TorchModel

            told = {name: header[name] for name in ("device", "threads", "chunk")}
            model = TorchModel.open(spec, header["outputs"], **told)
        except ModuleNotFoundError as error:
            missing = (
                "PyTorch: install parley-federation[torch]" if error.name == "torch" else f"{error.name}: install it"
            )
            return Frame({"refused": f"{spec.kind} needs {missing}"})
        except PartyError as error:
            return Frame({"refused": str(error)})
        except BaseException as error:  # of the user's code
            return Frame({"refused": f"{spec.kind} raises {type(error).__name__} where it is opened: {error}"})
        self.model = model
        facts = {
            "dimension": model.dimension,
            "route": model.route,
            "chunk": model.chunk,
            "chunk_seconds": _chunk_seconds(model),
            "parameters": [[name, list(shape)] for name, shape in model.parameters],
            "digest": model.spec.digest,
        }
        return Frame(facts)

    def _extractor(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        """On public inputs alone, as `_open`."""
        transform = extractor_from_json(header["transform"])
        try:
            from parley.models.extractor import Opened

            self.extractor = Opened.of(transform, header["threads"])
            return Frame({"chunk_seconds": self.extractor.seconds_per_chunk(), "chunk": self.extractor.chunk})
        except PartyError as error:
            return Frame({"refused": str(error)})
        except BaseException as error:  # of the user's code, or torch is not there
            return Frame({"refused": f"{transform.kind} raises {type(error).__name__} where it is opened: {error}"})

    def _features(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        if self.extractor is None:
            raise ValueError("nothing is open")
        return Frame({}, (self.extractor(arrays[0]),))

    def _records(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        self.here = Here(records_from_frame(header, arrays), self._opened())
        return Frame({"units": self.here.records.units})

    def _gradients(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        batch, points = self._asked(arrays)
        terms, lattice, scale = Terms(**header["terms"]), _lattice(header), Scale(**header["scale"])
        return Frame({}, (self._held().gradients(batch, points, terms, lattice, scale),))

    def _losses(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        batch, points = self._asked(arrays)
        lattice, scale = _lattice(header), Scale(**header["scale"])
        return Frame({}, (self._held().losses(batch, points, header["times"], lattice, scale),))

    def _norms(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        batch, points = self._asked(arrays)
        return Frame({}, (self._held().norms(batch, points[0], header["top"], Scale(**header["scale"])),))

    def _initial(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        return Frame({}, (np.asarray(self._opened().initial(arrays[0].view(np.uint64)), np.float64),))

    def _rows(self, header: Mapping[str, Any], arrays: tuple[Array, ...]) -> Frame:
        """Of rows that come with the question, one point: a coordinator's public set."""
        values, targets, point = arrays
        block, model = DenseRows.of(values, header["bits"]).take(np.arange(len(values))), self._opened()
        model.chunks.failures = None
        ask: dict[str, Callable[[], Array]] = {
            "scores": lambda: model.scores(block, point),
            "losses": lambda: model.losses(block, targets, point),
            "gradients": lambda: model.gradients(block, targets, point),
            "norms": lambda: model.gradient_norms(block, targets, point),
        }
        return Frame({}, (np.ascontiguousarray(ask[header["of"]](), np.float64),))

    def _asked(self, arrays: tuple[Array, ...]) -> tuple[Batch, tuple[Array, ...]]:
        """A batch and points. A slot (`apart.Slots`) has room to find one record that raises, at every point."""
        indices, present, points = arrays
        self._opened().chunks.failures = len(points)
        return Batch(indices, present), tuple(points)

    def _opened(self) -> "TorchModel":
        if self.model is None:
            raise ValueError("nothing is open")
        return self.model

    def _held(self) -> Here:
        if self.here is None:
            raise ValueError("there are no records")
        return self.here


def _chunk_seconds(model: "TorchModel") -> float:
    """Of one processor, whatever else this machine is busy with: gradients and their exact sum, on public rows."""
    clock = time.process_time if model.device == "cpu" else time.perf_counter
    rows = DenseRows.of(np.zeros((model.chunk, math.prod(model.spec.input)), np.uint8), 0)
    block, present = rows.take(np.arange(model.chunk)), np.ones(model.chunk, bool)
    asked = ((np.zeros(model.dimension),), Terms(0.0, 0.0, 1.0, 1.0), Scale(2.0**-16, 1 << 16))
    count, began = 0, clock()
    while count < FEWEST_MEASURED or clock() - began < MEASURED_SECONDS:
        model.contribution(block, np.zeros(model.chunk), present, *asked)
        count += 1
    return max((clock() - began) / count, 1e-9)


def main(commands: int, answers: int, parent: int) -> None:
    """Until the other end closes its pipe."""
    _end_with(parent)
    # What it starts stays its own, whoever of them ends in between, so that all of it is found when it is ended.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own = os.getpid()
    os.register_at_fork(after_in_child=lambda: _forked(commands, answers))
    for handle in (commands, answers):
        os.set_inheritable(handle, False)
    served = Served()
    while os.getpid() == own:
        try:
            answer = served.answer(read(commands, Deadline()))
            if os.getpid() != own:
                break
            write(answers, answer, Deadline())
        except FrameError:
            break
    # Nothing of the module's is run any more, whatever it has asked for at exit.
    os._exit(0)


def _end_with(parent: int) -> None:
    """The system ends this process with the thread that started it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended in between
        os._exit(1)


def _forked(commands: int, answers: int) -> None:
    """In a process that the module has forked: it hears nothing, and says nothing in this one's place."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(commands)
    os.close(answers)
