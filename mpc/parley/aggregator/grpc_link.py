"""A link over one gRPC bidirectional stream: what the federation uses between its two aggregators.

Server A dials B (`dial`), B serves (`NoiseServicer`). Frames are cut into pieces of 1 MiB, gRPC's default limit of 4
MiB stays. A stream that ends, for whatever reason, ends its session.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import Any

import grpc

from parley.federation.errors import NotAuthorisedError
from parley.federation.rounds import PIECE_BYTES
from parley.mpc.errors import FrameError, PeerClosedError, PeerError, PeerTimeoutError
from parley.node.refusals import abort
from parley.v1 import noise_pb2, noise_pb2_grpc

GRACE_SECONDS = 1.0
"""Between the last piece sent and the end of the stream, for the other side to take it."""
MOST_FRAME_BYTES = 1 << 26
MOST_WAITING_FRAMES = 2
"""Read ahead of the protocol: more than one is a peer that does not wait for answers, and is made to wait."""


class GrpcLink:
    """Either end of the stream. Reading runs in a thread of its own, so that a deadline can be kept."""

    def __init__(self, piece: Callable[..., Any], incoming: Iterator[Any], cancel: Callable[[], Any]) -> None:
        self._piece, self._incoming, self._cancel = piece, incoming, cancel
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._inbox: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._ended: PeerError | None = None
        self._closed = False
        threading.Thread(target=self._read, daemon=True, name="noise-link").start()

    def outgoing(self) -> Iterator[Any]:
        """What gRPC sends: ends when the link is closed."""
        while (piece := self._outbox.get()) is not None:
            yield piece

    @property
    def over(self) -> bool:
        """Nothing can be said over it any more."""
        return self._closed or self._ended is not None

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        if self.over:
            raise PeerClosedError("the connection to the other server is closed")
        view = memoryview(frame)
        for start in range(0, len(view), PIECE_BYTES):
            stop = start + PIECE_BYTES
            self._outbox.put(self._piece(data=bytes(view[start:stop]), last=stop >= len(view)))

    def receive(self, deadline: float) -> bytes:
        with self._changed:
            left = max(deadline - time.monotonic(), 0)
            if not self._changed.wait_for(lambda: self._inbox or self._ended or self._closed, left):
                raise PeerTimeoutError("the other server did not answer in time")
            if not self._inbox:
                raise self._ended or PeerClosedError("the connection to the other server is closed")
            self._changed.notify_all()
            return self._inbox.popleft()

    def close(self) -> None:
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
            while (frame := self._next_frame()) is not None:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._inbox) < MOST_WAITING_FRAMES or self._closed)
                    self._inbox.append(frame)
                    self._changed.notify_all()
        except PeerError as error:
            ended = error
        except grpc.RpcError as error:
            ended = PeerClosedError(f"the connection to the other server broke: {_describe(error)}")
        with self._changed:
            self._ended = ended
            self._changed.notify_all()
        self.close()

    def _next_frame(self) -> bytes | None:
        """Pieces put together; None when the stream has ended."""
        pieces: list[bytes] = []
        size = 0
        for piece in self._incoming:
            pieces.append(piece.data)
            size += len(piece.data)
            if size > MOST_FRAME_BYTES or not piece.data:
                raise FrameError(f"frame of more than {MOST_FRAME_BYTES} bytes, or with an empty piece")
            if piece.last:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return None


def _describe(error: grpc.RpcError) -> str:
    code = error.code() if isinstance(error, grpc.Call) else None
    return f"{code.name.lower()}: {error.details()}" if code is not None else "stream ended"


def begin(method: Callable[..., Any], piece: Callable[..., Any], timeout_seconds: float | None = None) -> GrpcLink:
    """The dialling end of one stream of a stub's `method`."""
    started: queue.SimpleQueue[GrpcLink] = queue.SimpleQueue()

    def requests() -> Iterator[Any]:
        yield from started.get().outgoing()

    call = method(requests(), wait_for_ready=True, timeout=timeout_seconds)
    link = GrpcLink(piece, call, call.cancel)
    started.put(link)
    return link


def dial(channel: grpc.Channel) -> GrpcLink:
    """Server A's end: one noise session over `channel`. It lasts, so only its frames have deadlines."""
    return begin(noise_pb2_grpc.NoiseServiceStub(channel).Converse, noise_pb2.ConverseRequest)


class NoiseServicer(noise_pb2_grpc.NoiseServiceServicer):
    """Server B's end: hands each accepted stream to `on_link`, and keeps it open until the link is closed.

    `allowed` are the identities (URIs in the certificate's subject alternative name) that may be server A.
    """

    def __init__(self, on_link: Callable[[GrpcLink], None], allowed: Set[str]) -> None:
        self._on_link, self._allowed = on_link, {uri.encode() for uri in allowed}

    def Converse(self, request_iterator: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        if not self._allowed & set(context.auth_context().get("x509_subject_alternative_name", ())):
            abort(context, NotAuthorisedError("this identity is not the other aggregation server"))
        done = threading.Event()
        link = GrpcLink(noise_pb2.ConverseResponse, request_iterator, done.set)
        context.add_callback(lambda: link.close())
        self._on_link(link)
        yield from link.outgoing()
        with contextlib.suppress(ValueError):
            context.cancel()
