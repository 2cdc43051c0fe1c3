"""The conversations in which A and B open sums, one after another on streams that A dials; B answers when it is ready.

The first frame of each, from A, names run, round and purpose, and passes on what parties have sealed for B (`relay`).
B's first frame begins with its verdict, so that A learns why nothing comes of it. What follows are the frames of
`parley.aggregator.opening`. A stream is used again only after a conversation that both have ended as its protocol says.
"""

import asyncio
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import grpc

from parley.aggregator.grpc_link import GrpcLink, begin
from parley.mpc.channel import Channel, Link
from parley.mpc.errors import FrameError, PeerError
from parley.node.newer import NewerError, strict
from parley.node.refusals import RefusedCallError, abort
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc

NAMING = struct.Struct("<32sI?")
"""Manifest digest, round, whether only to settle what a crash left; then `RelayedHalves`."""
GO, SHORT, UNREADY, LOST = b"\x01", b"\x02", b"\x03", b"\x04"
FRAME_SECONDS = 10.0
"""For a server that has begun to answer."""
STREAM_SECONDS = 600.0
"""B takes no conversation on an older stream, so that A's certificate is looked at again; A stops a minute before."""
MOST_IDLE_STREAMS = 8
RELAYED = strict(aggregator_pb2.RelayedHalves.FromString)
Halves = Sequence[aggregator_pb2.RelayedHalf]


class PeerShortError(PeerError):
    """The other server's deadline has passed with too few contributions."""


class PeerLostError(PeerError):
    """The other server says that this round can never be opened."""


class Conversation(Channel):
    """A channel over a lent link: `finish` gives it back for the next one, anything else closes it."""

    def __init__(self, link: Link, give_back: Callable[[], None]) -> None:
        super().__init__(link, FRAME_SECONDS)
        self._give_back = give_back

    def finish(self) -> None:
        """Everything that the protocol has to say was said, by both."""
        if self._closed_by is None:
            self._closed_by = "this conversation is over"
            self._give_back()


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
        self.given_back = False

    def channel(self) -> Conversation:
        """To be spoken over, once."""
        return Conversation(self, self._give_back)

    def _give_back(self) -> None:
        self.given_back = True

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


def naming(manifest_digest: bytes, round_index: int, settling: bool, halves: Halves = ()) -> bytes:
    """The first frame of a conversation."""
    relayed = aggregator_pb2.RelayedHalves(halves=halves).SerializeToString() if halves else b""
    return NAMING.pack(manifest_digest, round_index, settling) + relayed


class Dialler:
    """How server A reaches B; `channel` gives the connection to use now."""

    def __init__(self, channel: Callable[[], grpc.Channel]) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._idle: deque[tuple[grpc.Channel, GrpcLink, float]] = deque()
        """Streams between two conversations: what they run over, and when they were dialled."""

    def __call__(
        self, manifest_digest: bytes, round_index: int, settling: bool, patience_seconds: float, halves: Halves = ()
    ) -> Conversation:
        channel = self._channel()
        link, born = self._taken(channel)
        first = naming(manifest_digest, round_index, settling, halves)
        return Conversation(DiallingLink(link, first, patience_seconds), lambda: self._give_back(channel, link, born))

    def _taken(self, channel: grpc.Channel) -> tuple[GrpcLink, float]:
        """A stream over this channel, dialled if none is idle; what cannot be used any more is closed on the way."""
        with self._lock:
            idle = list(self._idle)
            self._idle.clear()
        found: tuple[GrpcLink, float] | None = None
        for over, link, born in idle:
            fit = over is channel and not link.over and time.monotonic() < born + STREAM_SECONDS - 60
            if fit and found is None:
                found = link, born
            elif fit:
                self._give_back(over, link, born)
            else:
                link.close()
        if found is not None:
            return found
        stub = aggregator_pb2_grpc.OpeningServiceStub(channel)
        return begin(stub.Converse, aggregator_pb2.OpeningServiceConverseRequest), time.monotonic()

    def _give_back(self, channel: grpc.Channel, link: GrpcLink, born: float) -> None:
        with self._lock:
            if len(self._idle) < MOST_IDLE_STREAMS:
                self._idle.append((channel, link, born))
                return
        link.close()


Serve = Callable[[AnsweringLink, bytes, int, bool, Halves, asyncio.Event], Coroutine[Any, Any, None]]
"""Link, manifest digest, round, settling, what A passes on, and what is set when the stream has ended."""


class OpeningServicer(aggregator_pb2_grpc.OpeningServiceServicer):
    """B's end; a thread of `grpc.server` sends, one of its own hands each conversation to `serve` on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: Serve) -> None:
        self._loop, self._serve = loop, serve

    def Converse(self, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        gone = asyncio.Event()
        link = GrpcLink(aggregator_pb2.OpeningServiceConverseResponse, request_iterator, lambda: None)

        def over() -> None:
            link.stop()
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(gone.set)

        context.add_callback(over)
        threading.Thread(target=self._converse, args=(link, gone), daemon=True, name="opening-stream").start()
        yield from link.outgoing()
        if link.refused is not None:
            abort(context, link.refused)

    def _converse(self, link: GrpcLink, gone: asyncio.Event) -> None:
        """One conversation after another, until one does not end well or the stream is old."""
        ends, first = time.monotonic() + STREAM_SECONDS, time.monotonic() + FRAME_SECONDS
        try:
            named = link.receive(first)
            while not self._loop.is_closed():  # or this server is stopping
                digest, index, settling, halves = _named(named)
                answering = AnsweringLink(link)
                coroutine = self._serve(answering, digest, index, settling, halves, gone)
                asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
                if not answering.given_back:
                    return
                named = link.receive(ends)
        except (PeerError, CancelledError):
            return
        finally:
            link.close()


def _named(frame: bytes | bytearray) -> tuple[bytes, int, bool, Halves]:
    try:
        digest, index, settling = NAMING.unpack_from(frame)
        relayed = bytes(memoryview(frame)[NAMING.size :])
        return digest, index, settling, RELAYED(relayed).halves
    except (struct.error, RefusedCallError) as error:
        newer = f": {error}" if isinstance(error, NewerError) else ""
        raise FrameError(f"the first frame of an opening does not name it{newer}") from None
