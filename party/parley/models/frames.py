"""What a process with a user's module and the process that started it say to each other: frames over two pipes.

    8 bytes: the header's length, little endian     JSON: {…, "arrays": [["int64", [3, 2]], …]}     each array's bytes

Nothing is pickled. Whoever reads knows beforehand how long a frame may be, and takes from the process with the module
the very arrays that are due and no others: that process runs code that nobody here has written.
"""

import json
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Due = tuple[str, tuple[int, ...]]
"""Type and shape of an array."""

LONGEST_HEADER = 1 << 20
MOST_ARRAYS = 16
MOST_BYTES = 1 << 37
"""Of the records of one party: 128 GB."""
TYPES = ("uint8", "int16", "int32", "int64", "float32", "float64", "bool")
PIECE = 1 << 24


class FrameError(Exception):
    """The other end is gone, late, or has not sent what was due; the message holds no byte of what it sent."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    header: Mapping[str, Any]
    arrays: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Deadline:
    """Until when one end waits for the other; `gone` says whether the other has ended."""

    at: float | None = None
    gone: Callable[[], bool] = lambda: False

    def wait(self, handle: int, to_write: bool) -> None:
        """Until the pipe can be used, or a FrameError."""
        poll = select.poll()
        poll.register(handle, select.POLLOUT if to_write else select.POLLIN)
        while True:
            left = None if self.at is None else self.at - time.monotonic()
            if left is not None and left <= 0:
                raise FrameError("no answer in time")
            # Whoever holds a copy of the other end keeps the pipe open: that the process has ended counts.
            ended = self.gone()
            if poll.poll(1000 * min(0.2, 0.2 if left is None else left)):
                return
            if ended:
                raise FrameError("the process has ended")


def described(arrays: Sequence[Array]) -> list[list[Any]]:
    return [[each.dtype.name, list(each.shape)] for each in arrays]


def write(handle: int, frame: Frame, deadline: Deadline) -> None:
    """The whole frame; the pipe does not block."""
    arrays = [np.ascontiguousarray(each) for each in frame.arrays]
    header = json.dumps({**frame.header, "arrays": described(arrays)}, separators=(",", ":")).encode()
    _send(handle, memoryview(len(header).to_bytes(8, "little") + header), deadline)
    for each in arrays:
        if each.nbytes:
            _send(handle, memoryview(each.reshape(-1).view(np.uint8).data), deadline)


def read(handle: int, deadline: Deadline, due: Sequence[Due] | None = None) -> Frame:
    """The next frame. With `due` exactly these arrays, or none of them where the other end says why."""
    length = int.from_bytes(_receive(handle, 8, deadline), "little")
    if not 0 < length <= LONGEST_HEADER:
        raise FrameError("a header of another length than any")
    try:
        header = json.loads(bytes(_receive(handle, length, deadline)))
        listed = [(str(kind), tuple(int(each) for each in shape)) for kind, shape in header.pop("arrays")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FrameError("a header that is none") from None
    if due is not None and listed and listed != list(due):
        raise FrameError("other arrays than were due")
    if due and not listed and "lost" not in header:
        raise FrameError("no arrays, and no word why")
    if len(listed) > MOST_ARRAYS or any(kind not in TYPES or min(shape, default=0) < 0 for kind, shape in listed):
        raise FrameError("arrays that nobody sends")
    sizes = [np.dtype(kind).itemsize * int(np.prod(shape, dtype=object)) for kind, shape in listed]
    if sum(sizes) > MOST_BYTES:
        raise FrameError("more than anybody sends")
    found = [
        np.frombuffer(_receive(handle, size, deadline), kind).reshape(shape)
        for (kind, shape), size in zip(listed, sizes, strict=True)
    ]
    return Frame(header, tuple(found))


def _send(handle: int, data: memoryview, deadline: Deadline) -> None:
    done = 0
    while done < len(data):
        deadline.wait(handle, to_write=True)
        try:
            done += os.write(handle, data[done : done + PIECE])
        except BlockingIOError:
            continue
        except OSError as error:
            raise FrameError(f"the pipe is closed: {error.strerror}") from None


def _receive(handle: int, size: int, deadline: Deadline) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        deadline.wait(handle, to_write=False)
        try:
            count = os.readv(handle, [view[done : done + PIECE]])
        except BlockingIOError:
            continue
        except OSError as error:
            raise FrameError(f"the pipe is closed: {error.strerror}") from None
        if not count:
            raise FrameError("the process has ended")
        done += count
    return data
