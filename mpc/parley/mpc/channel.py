"""A labelled, deadline-bound conversation between the two servers.

A `Link` moves frames and may buffer; a `Channel` puts a label on each (session, batch, step, length) and a tag over the
whole frame, and refuses any frame that is not the one the protocol is at, or not as it was sent. The first error of any
kind ends the channel for good: what was in flight is never used again.

The tag (GMAC under a key that the two servers' hellos fix) catches faults: bits that flipped, frames cut, joined or
echoed. Against somebody who alters frames on purpose the link's TLS stands; against the other server itself, see
LIMITATIONS.md.
"""

import hashlib
import hmac
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parley.mpc.errors import FrameError, MpcError, PeerClosedError, PeerTimeoutError, SessionClosedError
from parley.mpc.steps import Bytes, Message, Steps

T = TypeVar("T")
SESSION_BYTES = 16
HEADER = struct.Struct("<16sIII")
"""Session, batch, step, length of the payload."""
TAG_BYTES = 16
FRAME_OVERHEAD = HEADER.size + TAG_BYTES
DEADLINE_SECONDS = 30.0


class Link(Protocol):
    """Moves whole frames in order. `send` must not wait for the other side to read; raises PeerError only."""

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        """Queue a frame."""

    def receive(self, deadline: float) -> bytes | bytearray | memoryview:
        """The next frame, before `deadline` on time.monotonic(), or PeerTimeoutError."""

    def close(self) -> None:
        """Idempotent; wakes a receiver on the other side with PeerClosedError."""


@dataclass
class Traffic:
    """What one server has sent and how often it has waited for an answer."""

    bytes_sent: int = 0
    bytes_received: int = 0
    exchanges: int = 0


class Channel:
    """Exchanges messages of equal length with the peer, each under its label."""

    def __init__(self, link: Link, deadline_seconds: float = DEADLINE_SECONDS, place: bytes = b"") -> None:
        self._link = link
        self.place = place
        """Which of several streams between the same two servers this is, as both have agreed: sessions are bound to it.
        Nothing where there is one.
        """
        self._deadline_seconds = deadline_seconds
        self._session = bytes(SESSION_BYTES)
        self._role: int | None = None
        self._tags = AESGCM(bytes(16))
        self._batch = 0
        self._step = 0
        self._closed_by: str | None = None
        self.traffic = Traffic()

    def open_session(self, session: bytes, role: int) -> None:
        """All further frames carry this session's id, and differ by who sent them."""
        if len(session) != SESSION_BYTES:
            raise ValueError(f"a session id has {SESSION_BYTES} bytes")
        self._session, self._role, self._batch, self._step = session, role, 0, 0
        self._tags = AESGCM(hashlib.sha256(b"parley frame tag v1" + session).digest()[:16])

    def next_batch(self) -> None:
        """Steps count from zero within a batch."""
        self._batch += 1
        self._step = 0

    def exchange(self, message: Message) -> Message:
        """Send `message`; the peer's message of the same step, cut into pieces of the same lengths."""
        if self._closed_by is not None:
            raise SessionClosedError(f"this session has ended: {self._closed_by}")
        done = False
        try:
            answer = self._exchange(message)
            done = True
            return answer
        except MpcError as error:
            self.close(str(error))
            raise
        finally:
            if not done:
                self.close("an exchange failed")

    def _exchange(self, message: Message) -> Message:
        length = sum(piece.size for piece in message)
        label = HEADER.pack(self._session, self._batch, self._step, length)
        frame = bytearray(FRAME_OVERHEAD + length)
        frame[: HEADER.size] = label
        start = FRAME_OVERHEAD
        for piece in message:
            frame[start : start + piece.size] = piece.data
            start += piece.size
        frame[HEADER.size : FRAME_OVERHEAD] = self._tag(self._role, memoryview(frame)[FRAME_OVERHEAD:])
        self._link.send(frame)
        self.traffic.bytes_sent += len(frame)
        self.traffic.exchanges += 1
        answer = memoryview(self._link.receive(time.monotonic() + self._deadline_seconds))
        self.traffic.bytes_received += len(answer)
        payload = answer[FRAME_OVERHEAD:]
        if len(answer) < FRAME_OVERHEAD or answer[: HEADER.size] != label:
            raise FrameError(self._mismatch(bytes(answer[: HEADER.size]), length))
        if len(payload) != length:
            raise FrameError(f"frame of {len(payload)} bytes where {length} were announced")
        peer = None if self._role is None else 1 - self._role
        if not hmac.compare_digest(self._tag(peer, payload), bytes(answer[HEADER.size : FRAME_OVERHEAD])):
            raise FrameError("frame altered on its way")
        self._step += 1
        received = np.frombuffer(payload, np.uint8)
        pieces: Message = []
        start = 0
        for piece in message:
            pieces.append(received[start : start + piece.size])
            start += piece.size
        return pieces

    def _tag(self, sender: int | None, payload: memoryview) -> bytes:
        nonce = struct.pack("<BxxxII", 2 if sender is None else sender, self._batch, self._step)
        return self._tags.encrypt(nonce, b"", payload)

    def _mismatch(self, header: bytes, length: int) -> str:
        if len(header) < HEADER.size:
            return f"frame of {len(header)} bytes, shorter than its header"
        session, batch, step, got = HEADER.unpack(header)
        if session != self._session:
            return "frame of another session"
        return (
            f"frame of batch {batch}, step {step}, {got} bytes, where batch {self._batch}, step {self._step}, "
            f"{length} bytes was due"
        )

    def run(self, protocol: Steps[T]) -> T:
        """Drive a protocol to its end. Whatever it raises ends the channel."""
        done = False
        try:
            message = next(protocol)
            while True:
                message = protocol.send(self.exchange(message))
        except StopIteration as stop:
            done = True
            result: T = stop.value
            return result
        except MpcError as error:
            self.close(str(error))
            raise
        finally:
            if not done:
                self.close("a protocol failed")

    def close(self, reason: str = "closed here") -> None:
        if self._closed_by is None:
            self._closed_by = reason
            self._link.close()


class MemoryLink:
    """One end of a link inside a process: for tests, and for the dealer-fed simulations."""

    def __init__(self) -> None:
        self._inbox: deque[bytes] = deque()
        self._ready = threading.Condition()
        self._open = True
        self.peer: MemoryLink = self

    @classmethod
    def pair(cls) -> tuple["MemoryLink", "MemoryLink"]:
        a, b = cls(), cls()
        a.peer, b.peer = b, a
        return a, b

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        with self.peer._ready:
            if not self.peer._open:
                raise PeerClosedError("the other server has closed the connection")
            self.peer._inbox.append(bytes(frame))
            self.peer._ready.notify()

    def receive(self, deadline: float) -> bytes:
        with self._ready:
            while not self._inbox:
                if not self._open:
                    raise PeerClosedError("the other server has closed the connection")
                if not self._ready.wait(max(deadline - time.monotonic(), 0)):
                    raise PeerTimeoutError("the other server did not answer in time")
            return self._inbox.popleft()

    def close(self) -> None:
        for end in (self, self.peer):
            with end._ready:
                end._open = False
                end._ready.notify_all()


def record(channel: Channel, transcript: list[tuple[Bytes, Bytes]], protocol: Steps[T]) -> T:
    """As Channel.run, keeping what was sent and received in each exchange: for transcripts in tests and vectors."""
    try:
        message = next(protocol)
        while True:
            answer = channel.exchange(message)
            transcript.append(
                (np.concatenate([*message, np.empty(0, np.uint8)]), np.concatenate([*answer, np.empty(0, np.uint8)]))
            )
            message = protocol.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
