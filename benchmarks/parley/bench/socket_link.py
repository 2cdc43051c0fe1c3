"""A link over a TCP or Unix socket, TLS included: one thread, non-blocking, so that both sides may send at once."""

import contextlib
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import deque

from parley.mpc.errors import FrameError, PeerClosedError, PeerError, PeerTimeoutError

LENGTH = struct.Struct("<I")
MOST_FRAME_BYTES = 1 << 26
READ_BYTES = 1 << 20


class SocketLink:
    """Frames as a length and its bytes. `sock` is connected, and wrapped in TLS if it is to be."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        self._outgoing: deque[memoryview] = deque()
        self._incoming = bytearray(LENGTH.size)
        self._filled = 0
        self._wanted: int | None = None
        """Length of the frame being read, once its prefix is in."""
        self._guard = threading.Lock()
        self._busy = self._closed = False

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        if len(frame) > MOST_FRAME_BYTES:
            raise FrameError(f"frame of {len(frame)} bytes: at most {MOST_FRAME_BYTES}")
        self._outgoing += [memoryview(LENGTH.pack(len(frame))), memoryview(frame)]
        self._write()

    def receive(self, deadline: float) -> bytearray:
        with self._guard:
            if self._closed:
                raise PeerClosedError("the connection to the other server is closed")
            self._busy = True
        try:
            return self._receive(deadline)
        finally:
            with self._guard:
                self._busy = False
                closed = self._closed
            if closed:
                self._release()

    def _receive(self, deadline: float) -> bytearray:
        while True:
            if (frame := self._read()) is not None:
                # The other side waits for the rest of ours, and nothing else may come along to push it out.
                self.flush(deadline)
                return frame
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
            self._selector.modify(self._sock, events)
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise PeerTimeoutError("the other server did not answer in time")
            self._write()

    def flush(self, deadline: float) -> None:
        """Wait until what was sent has left."""
        while self._outgoing:
            self._selector.modify(self._sock, selectors.EVENT_WRITE)
            if not self._selector.select(max(deadline - time.monotonic(), 0)):
                raise PeerTimeoutError("the other server does not read")
            self._write()

    def close(self) -> None:
        """From any thread: one that waits in `receive` is woken and frees the socket itself."""
        with self._guard:
            if self._closed:
                return
            self._closed, busy = True, self._busy
        if not busy:
            with contextlib.suppress(PeerError, OSError):
                self.flush(time.monotonic() + 1)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if not busy:
            self._release()

    def _release(self) -> None:
        self._selector.close()
        self._sock.close()

    def _write(self) -> None:
        try:
            while self._outgoing:
                sent = self._sock.send(self._outgoing[0])
                rest = self._outgoing[0][sent:]
                if rest:
                    self._outgoing[0] = rest
                else:
                    self._outgoing.popleft()
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise PeerClosedError(f"the connection to the other server broke: {error}") from None

    def _read(self) -> bytearray | None:
        try:
            while True:
                space = memoryview(self._incoming)[self._filled :]
                got = self._sock.recv_into(space[:READ_BYTES])
                if got == 0:
                    raise PeerClosedError("the other server has closed the connection")
                self._filled += got
                if self._filled < len(self._incoming):
                    continue
                if self._wanted is not None:
                    frame = self._incoming
                    self._expect_length()
                    return frame
                (self._wanted,) = LENGTH.unpack(self._incoming)
                if self._wanted > MOST_FRAME_BYTES:
                    raise FrameError(f"frame of {self._wanted} bytes announced: at most {MOST_FRAME_BYTES}")
                if self._wanted == 0:
                    raise FrameError("empty frame")
                self._incoming, self._filled = bytearray(self._wanted), 0
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise PeerClosedError(f"the connection to the other server broke: {error}") from None

    def _expect_length(self) -> None:
        self._incoming, self._filled, self._wanted = bytearray(LENGTH.size), 0, None
