"""A link over one gRPC bidirectional stream: what the federation uses between its two aggregators.

Server A dials B (`dial`), B serves (`NoiseServicer`). Frames are cut into pieces of 1 MiB, gRPC's default limit of 4
MiB stays. A stream that ends, for whatever reason, ends its session.
"""

import contextlib
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import grpc

from parley.aggregator.refusals import CallRefusedError, CallWaitsError, malformed
from parley.federation.errors import NotAuthorisedError
from parley.federation.rounds import PIECE_BYTES
from parley.mpc.channel import DEADLINE_SECONDS
from parley.mpc.errors import FrameError, PeerClosedError, PeerError, PeerTimeoutError
from parley.node.node_file import MOST_WORKERS
from parley.node.refusals import RefusedCallError, abort
from parley.v1 import noise_pb2, noise_pb2_grpc

GRACE_SECONDS = 1.0
"""Between the last piece sent and the end of the stream, for the other side to take it."""
MOST_FRAME_BYTES = 1 << 26
MOST_WAITING_FRAMES = 2
"""Read ahead of the protocol: more than one is a peer that does not wait for answers, and is made to wait."""
WORKERS = "parley-noise-workers"
"""Metadata of a stream: from A which worker's it is, from B that it knows what that means."""
LOOK_SECONDS = 0.2
"""For a stream to come, between two looks at whether its crew still waits."""
Said = Callable[[], Iterable[tuple[str, str | bytes]]]
"""The metadata that the other end has sent; waits for them."""
MOST_HELD_BYTES = 1 << 29
"""Of frames in all links of a process, whole or half read: a peer that sends on many streams at once would fill the
memory otherwise, and who runs out of it dies at a moment of the peer's choice.
"""


class Room:
    """For what was read and is not done with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.held = 0

    def take(self, size: int) -> None:
        with self._lock:
            if self.held + size > MOST_HELD_BYTES:
                raise PeerError(f"more than {MOST_HELD_BYTES:,} bytes from the other server are waiting to be read")
            self.held += size

    def give(self, size: int) -> None:
        with self._lock:
            self.held -= size


ROOM = Room()


class _Share:
    """One link's, given back at the latest when the link is gone."""

    def __init__(self) -> None:
        self._room, self._held = ROOM, 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        self._room.take(size)
        with self._lock:
            self._held += size

    def give(self, size: int) -> None:
        with self._lock:
            size = min(size, self._held)
            self._held -= size
        self._room.give(size)

    def give_all(self) -> None:
        with self._lock:
            size, self._held = self._held, 0
        self._room.give(size)


class GrpcLink:
    """Either end of the stream. Reading runs in a thread of its own, so that a deadline can be kept."""

    def __init__(
        self, piece: Callable[..., Any], incoming: Iterator[Any], cancel: Callable[[], Any], said: Said = lambda: (),
        worker: int = 0,
    ) -> None:  # fmt: skip
        self._piece, self._incoming, self._cancel, self._said = piece, incoming, cancel, said
        self.worker = worker
        """Of a crew; 0 is the first, or the only one."""
        self._knows_workers: bool | None = None
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._inbox: deque[bytes | bytearray] = deque()
        self._share, self._lent = _Share(), 0
        weakref.finalize(self, self._share.give_all)
        self._changed = threading.Condition()
        self._ended: PeerError | None = None
        self._closed, self._unread = False, True
        self.refused: RefusedCallError | None = None
        """What was read is no message of this release: the call is to end with it."""
        threading.Thread(target=self._read, daemon=True, name="noise-link").start()

    def outgoing(self) -> Iterator[Any]:
        """What gRPC sends: ends when the link is closed."""
        while (piece := self._outbox.get()) is not None:
            yield piece

    @property
    def over(self) -> bool:
        """Nothing can be said over it any more."""
        return self._closed or self._ended is not None

    def knows_workers(self, deadline: float) -> bool:
        """Whether the other end may have several streams for one pool: gRPC's metadata say so. A server from before
        says nothing, with its first frame.
        """
        with self._changed:
            left = max(deadline - time.monotonic(), 0)
            self._changed.wait_for(lambda: self._knows_workers is not None or self.over, left)
            if self._knows_workers is None:
                raise PeerTimeoutError("the other server did not answer in time")
            return self._knows_workers

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        if self.over:
            raise PeerClosedError("the connection to the other server is closed")
        view = memoryview(frame)
        for start in range(0, len(view), PIECE_BYTES):
            stop = start + PIECE_BYTES
            self._outbox.put(self._piece(data=bytes(view[start:stop]), last=stop >= len(view)))

    def receive(self, deadline: float) -> bytes | bytearray:
        with self._changed:
            self._share.give(self._lent)  # what came before this is done with, or the protocol's own to keep
            self._lent = 0
            left = max(deadline - time.monotonic(), 0)
            if not self._changed.wait_for(lambda: self._inbox or self._ended or self._closed, left):
                raise PeerTimeoutError("the other server did not answer in time")
            if not self._inbox:
                raise self._ended or PeerClosedError("the connection to the other server is closed")
            self._changed.notify_all()
            frame = self._inbox.popleft()
            self._lent = len(frame)
            return frame

    def close(self) -> None:
        """By whoever reads: what is still here is of no use to anybody."""
        with self._changed:
            self._unread = False
            self._inbox.clear()
        self._share.give_all()
        self.stop()

    def stop(self) -> None:
        """Nothing more is sent; what has come can still be read."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._outbox.put(None)  # what was sent before still leaves
        if self._ended is None:
            timer = threading.Timer(GRACE_SECONDS, self._cancel)
            timer.daemon = True
            timer.start()
        else:
            self._cancel()

    def _read(self) -> None:
        ended: PeerError = PeerClosedError("the other server has closed the connection")
        try:
            knows = any(key == WORKERS for key, _ in self._said() or ())
            with self._changed:
                self._knows_workers = knows
                self._changed.notify_all()
            while (frame := self._next_frame()) is not None:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._inbox) < MOST_WAITING_FRAMES or self._closed)
                    if not self._unread:
                        self._share.give(len(frame))
                        continue
                    self._inbox.append(frame)
                    self._changed.notify_all()
        except PeerError as error:
            ended = error
            with self._changed:
                self._inbox.clear()
            self._share.give_all()
        except grpc.RpcError as error:
            ended = PeerClosedError(f"the connection to the other server broke: {_describe(error)}")
        except RefusedCallError as error:
            self.refused = error
            ended = PeerClosedError(f"what the other server says is refused: {error}")
        with self._changed:
            self._ended = ended
            self._changed.notify_all()
            if not self._unread:
                self._share.give_all()  # half a frame
        self.stop()

    def _next_frame(self) -> bytes | bytearray | None:
        """Pieces put together as they come, for small ones take many times their length; None when the stream has
        ended.
        """
        frame: bytes | bytearray = b""
        for piece in self._incoming:
            data = piece.data
            if len(frame) + len(data) > MOST_FRAME_BYTES or not data:
                raise FrameError(f"frame of more than {MOST_FRAME_BYTES} bytes, or with an empty piece")
            self._share.take(len(data))
            if not frame:
                frame = data
            else:
                frame = bytearray(frame) if isinstance(frame, bytes) else frame
                frame += data
            if piece.last:
                return frame
        return None


def _describe(error: grpc.RpcError) -> str:
    code = error.code() if isinstance(error, grpc.Call) else None
    return f"{code.name.lower()}: {error.details()}" if code is not None else "stream ended"


def begin(method: Callable[..., Any], piece: Callable[..., Any], worker: int | None = None) -> GrpcLink:
    """The dialling end of one stream of a stub's `method`; of a worker, where the method has workers."""
    started: queue.SimpleQueue[GrpcLink] = queue.SimpleQueue()

    def requests() -> Iterator[Any]:
        yield from started.get().outgoing()

    if worker is None:
        call = method(requests(), wait_for_ready=True)
        link = GrpcLink(piece, call, call.cancel)
    else:
        call = method(requests(), wait_for_ready=True, metadata=((WORKERS, str(worker)),))
        link = GrpcLink(piece, call, call.cancel, call.initial_metadata, worker)
    started.put(link)
    return link


def dial(channel: grpc.Channel, covert: bool = False, worker: int = 0) -> GrpcLink:
    """Server A's end: one noise session over `channel`. It lasts, so only its frames have deadlines."""
    stub = noise_pb2_grpc.NoiseServiceStub(channel)
    return begin(stub.ConverseCovert if covert else stub.Converse, noise_pb2.ConverseRequest, worker)


class Door:
    """Server B's: streams of one kind that A has dialled, until somebody takes them. Of each further worker the newest
    one is kept: an older one is of a crew that A has given up.
    """

    def __init__(self, wanted: Callable[[], bool] = lambda: True) -> None:
        self._wanted = wanted
        self._waiting: queue.SimpleQueue[GrpcLink | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._further: dict[int, GrpcLink] = {}
        self._closed = False

    def require_wanted(self) -> None:
        if not self._wanted():
            raise CallWaitsError("no open run of this server needs such noise", "dial again")

    def put(self, link: GrpcLink) -> None:
        if not link.worker:
            self._waiting.put(link)
            return
        with self._changed:
            older = self._further.pop(link.worker, None)
            self._further[link.worker] = link
            self._changed.notify_all()
        if older is not None:
            older.close()

    def take(self) -> GrpcLink:
        link = self._waiting.get()
        if link is None:
            raise PeerClosedError("this server is stopping")
        return link

    def take_worker(self, number: int, over: Callable[[], bool]) -> GrpcLink:
        """The stream of a further worker, for as long as its crew waits for it."""
        until = time.monotonic() + DEADLINE_SECONDS
        with self._changed:
            while not self._closed and not over() and time.monotonic() < until:
                link = self._further.pop(number, None)
                if link is not None and not link.over:
                    return link
                if link is None:
                    self._changed.wait(LOOK_SECONDS)
        raise PeerClosedError(f"the stream of worker {number} did not come")

    def close(self) -> None:
        """Whoever waits for a stream waits no longer."""
        self._waiting.put(None)
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _worker(said: str | bytes) -> int:
    if said not in {str(number) for number in range(MOST_WORKERS)}:
        raise malformed(f"{WORKERS} names no worker", f"name one from 0 to {MOST_WORKERS - 1}")
    return int(said)


class NoiseServicer(noise_pb2_grpc.NoiseServiceServicer):
    """Server B's end: hands each accepted stream to `on_link`, or puts it at the door of audited noise, and keeps it
    open until the link is closed.

    `allowed` are the identities (URIs in the certificate's subject alternative name) that may be server A.
    """

    def __init__(self, on_link: Callable[[GrpcLink], None], allowed: Set[str], covert: Door | None = None) -> None:
        self._on_link, self._allowed = on_link, {uri.encode() for uri in allowed}
        self._covert = covert or Door(lambda: False)

    def Converse(self, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        yield from self._converse(self._on_link, request_iterator, context)

    def ConverseCovert(self, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            self._covert.require_wanted()
        except CallWaitsError as error:
            abort(context, error)
        yield from self._converse(self._covert.put, request_iterator, context)

    def _converse(
        self, on_link: Callable[[GrpcLink], None], request_iterator: Iterator[Any], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        if not self._allowed & set(context.auth_context().get("x509_subject_alternative_name", ())):
            abort(context, NotAuthorisedError("this identity is not the other aggregation server"))
        said = context.invocation_metadata()
        try:
            worker = _worker(dict(said).get(WORKERS, "0"))
        except CallRefusedError as error:
            abort(context, error)
        context.send_initial_metadata(((WORKERS, str(MOST_WORKERS)),))
        done = threading.Event()
        link = GrpcLink(noise_pb2.ConverseResponse, request_iterator, done.set, lambda: said, worker)
        context.add_callback(lambda: link.stop())
        on_link(link)
        yield from link.outgoing()
        if link.refused is not None:
            abort(context, link.refused)
        with contextlib.suppress(ValueError):
            context.cancel()
