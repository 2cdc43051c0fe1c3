"""The conversations in which A and B open sums: A dials one stream per opening, B answers when it is ready.

The first frame, from A, names run, round and purpose. B's first frame begins with its verdict, so that A learns why
nothing comes of it. What follows are the frames of `mpc.aggregate`.
"""

import asyncio
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import grpc
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc

from mpc.channel import Channel, Link
from mpc.errors import FrameError, PeerError
from mpc.grpc_link import GrpcLink, begin

NAMING = struct.Struct("<32sI?")
"""Manifest digest, round, whether only to settle what a crash left."""
GO, SHORT, UNREADY, LOST = b"\x01", b"\x02", b"\x03", b"\x04"
FRAME_SECONDS = 10.0
"""For a server that has begun to answer."""


class PeerShortError(PeerError):
    """The other server's deadline has passed with too few contributions."""


class PeerLostError(PeerError):
    """The other server says that this round can never be opened."""


class DiallingLink:
    """A's end: waits patiently for the first frame, and takes the verdict off it."""

    def __init__(self, link: Link, naming: bytes, patience_seconds: float) -> None:
        self._link, self._until = link, time.monotonic() + patience_seconds
        self._first = True
        link.send(naming)

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        self._link.send(frame)

    def receive(self, deadline: float) -> bytes | bytearray | memoryview:
        if not self._first:
            return self._link.receive(deadline)
        self._first = False
        frame = bytes(self._link.receive(max(deadline, self._until)))
        verdict, rest = frame[:1], frame[1:]
        if verdict == GO:
            return rest
        kinds = {SHORT: PeerShortError, UNREADY: PeerError, LOST: PeerLostError}
        if verdict not in kinds:
            raise FrameError("the other server answers an opening in a way that this version does not know")
        raise kinds[verdict](f"the other server: {rest[:500].decode(errors='replace')}")

    def close(self) -> None:
        self._link.close()


class AnsweringLink:
    """B's end: puts the verdict before its first frame."""

    def __init__(self, link: Link) -> None:
        self._link, self._verdict = link, GO

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        self._link.send(self._verdict + bytes(frame) if self._verdict else frame)
        self._verdict = b""

    def receive(self, deadline: float) -> bytes | bytearray | memoryview:
        return self._link.receive(deadline)

    def close(self) -> None:
        self._link.close()

    def decline(self, verdict: bytes, message: str) -> None:
        """Instead of a conversation."""
        if self._verdict:
            self._verdict = verdict
            self.send(message.encode())
        self.close()


class Dialler:
    """How server A reaches B; `channel` gives the connection to use now."""

    def __init__(self, channel: Callable[[], grpc.Channel]) -> None:
        self._channel = channel

    def __call__(self, manifest_digest: bytes, round_index: int, settling: bool, patience_seconds: float) -> Channel:
        stub = aggregator_pb2_grpc.OpeningServiceStub(self._channel())
        limit = patience_seconds + 6 * FRAME_SECONDS
        link = begin(stub.Converse, aggregator_pb2.OpeningServiceConverseRequest, limit)
        naming = NAMING.pack(manifest_digest, round_index, settling)
        return Channel(DiallingLink(link, naming, patience_seconds), FRAME_SECONDS)


Serve = Callable[[AnsweringLink, bytes, int, bool, asyncio.Event], Coroutine[Any, Any, None]]
"""Link, manifest digest, round, settling, and what is set when the stream has ended."""


class OpeningServicer(aggregator_pb2_grpc.OpeningServiceServicer):
    """B's end; runs in the threads of a `grpc.server` and hands each stream to `serve` on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: Serve) -> None:
        self._loop, self._serve = loop, serve

    def Converse(self, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        gone = asyncio.Event()
        link = GrpcLink(aggregator_pb2.OpeningServiceConverseResponse, request_iterator, lambda: None)

        def over() -> None:
            link.close()
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(gone.set)

        context.add_callback(over)
        try:
            named = link.receive(time.monotonic() + FRAME_SECONDS)
            if len(named) != NAMING.size:
                raise FrameError("the first frame of an opening does not name it")
            digest, round_index, settling = NAMING.unpack(named)
        except PeerError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        asyncio.run_coroutine_threadsafe(
            self._serve(AnsweringLink(link), digest, round_index, settling, gone), self._loop
        )
        yield from link.outgoing()
