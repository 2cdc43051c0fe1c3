"""Protocols as generators: each `yield` hands out what this server says in one exchange and takes in what the other
said.

A protocol is symmetric: in every exchange both servers send the same number of bytes, in the same pieces. So a protocol
knows no transport, parts of one can run side by side (`together`: their messages share an exchange), and a channel can
check every length. A message is a list of contiguous uint8 arrays.
"""

from collections.abc import Generator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Message = list[Bytes]
T = TypeVar("T")
Steps = Generator[Message, Message, T]


def together(*protocols: Steps[Any]) -> Steps[list[Any]]:
    """Run protocols in parallel, exchange by exchange; their results in order. A shorter one simply ends earlier."""
    results: list[Any] = [None] * len(protocols)
    outgoing: dict[int, Message] = {}

    def advance(i: int, incoming: Message | None) -> None:
        try:
            outgoing[i] = next(protocols[i]) if incoming is None else protocols[i].send(incoming)
        except StopIteration as stop:
            results[i] = stop.value
            outgoing.pop(i, None)

    for i in range(len(protocols)):
        advance(i, None)
    while outgoing:
        speaking = sorted(outgoing)
        lengths = [len(outgoing[i]) for i in speaking]
        incoming = yield [piece for i in speaking for piece in outgoing[i]]
        start = 0
        for i, length in zip(speaking, lengths, strict=True):
            advance(i, incoming[start : start + length])
            start += length
    return results


def as_bytes(array: NDArray[Any]) -> Bytes:
    """An array's memory as a flat message piece."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def pack(bits: Bytes) -> Bytes:
    """Bits, a byte each, eight to a byte."""
    return np.packbits(bits.reshape(-1), bitorder="little")


def unpack(packed: Bytes, *shape: int) -> Bytes:
    """The inverse of pack."""
    return np.unpackbits(packed, count=int(np.prod(shape)), bitorder="little").reshape(shape)
