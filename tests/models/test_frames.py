"""Frames: exactly what is due, from a pipe whose other end may say anything."""

import json
import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

from parley.models.frames import LONGEST_HEADER, MOST_BYTES, Deadline, Frame, FrameError, read, write

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    for each in ends:
        os.set_blocking(each, False)
    yield ends
    for each in ends:
        os.close(each)


def soon() -> Deadline:
    return Deadline(time.monotonic() + 0.2)


def header(arrays: object, **more: object) -> bytes:
    text = json.dumps({"arrays": arrays, **more}).encode()
    return len(text).to_bytes(8, "little") + text


def test_a_frame_is_read_as_it_was_written(pipe: Pipe) -> None:
    out, into = pipe
    arrays = (np.arange(6).reshape(2, 3)[:, ::2], np.array([2.5]), np.zeros((2, 0)))
    write(into, Frame({"ask": "x"}, arrays), Deadline())
    found = read(out, Deadline())
    assert found.header == {"ask": "x"}
    assert [each.tolist() for each in found.arrays] == [[[0, 2], [3, 5]], [2.5], [[], []]]


@pytest.mark.parametrize(
    "data",
    [
        (0).to_bytes(8, "little"),
        (LONGEST_HEADER + 1).to_bytes(8, "little"),
        b"\xff" * 8,
        (3).to_bytes(8, "little") + b"{{{",
        (4).to_bytes(8, "little") + b"null",
        (2).to_bytes(8, "little") + b"{}",
        (5).to_bytes(8, "little") + b"\xff" * 5,
        (100_000).to_bytes(8, "little")[:8] + b"[" * 1000,
        header([["object", [3]]]),
        header([["int64", [-3]]]),
        header([["int64", [1 << 40, 1 << 40]]]),
        header([["int64", ["3"]], ["<i8", [2]]]),
        header([["uint8", [0]]] * 17),
        header([["uint8", [MOST_BYTES + 1]]]),
        header(3),
        header([["int64", [3]]]) + b"short",
    ],
)
def test_anything_else_is_refused_and_no_memory_is_taken_for_it(pipe: Pipe, data: bytes) -> None:
    os.write(pipe[1], data)
    with pytest.raises(FrameError) as caught:
        read(pipe[0], soon())
    assert len(str(caught.value)) < 60


@pytest.mark.parametrize("listed", [[["int64", [4]]], [["float64", [3]]], [["int64", [3]], ["int64", [3]]], []])
def test_only_the_arrays_that_are_due_are_taken(pipe: Pipe, listed: list[object]) -> None:
    os.write(pipe[1], header(listed) + bytes(64))
    with pytest.raises(FrameError):
        read(pipe[0], soon(), [("int64", (3,))])


def test_nothing_is_due_but_a_word_why(pipe: Pipe) -> None:
    os.write(pipe[1], header([], lost="ValueError"))
    assert read(pipe[0], Deadline(), [("int64", (3,))]).header == {"lost": "ValueError"}
    os.write(pipe[1], header([["int64", [1]]]) + bytes(8))
    with pytest.raises(FrameError):
        read(pipe[0], soon(), [])


def test_a_pipe_that_nobody_reads_or_writes_is_given_up(pipe: Pipe) -> None:
    with pytest.raises(FrameError, match="in time"):
        write(pipe[1], Frame({}, (np.zeros(1 << 20),)), soon())
    other = os.pipe()
    os.close(other[1])
    with pytest.raises(FrameError, match="ended"):
        read(other[0], Deadline())
    os.close(other[0])


def test_a_process_that_has_ended_is_not_waited_for_though_the_pipe_is_open(pipe: Pipe) -> None:
    with pytest.raises(FrameError, match="has ended"):
        read(pipe[0], Deadline(None, lambda: True))
    os.write(pipe[1], header([], said=1))
    assert read(pipe[0], Deadline(None, lambda: True)).header == {"said": 1}
