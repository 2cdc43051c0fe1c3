"""Standard-normal shares made ahead in the background; each is used once, or lost.

Both servers run the same batches over one session, so sample number i of a session (its `epoch`) is the same sample on
both. Positions are reserved for a sum by agreement (parley.aggregator.opening), only ever forwards; what lies before a
reservation and was not reserved is lost. When a session ends, for whatever reason, all its unused samples are lost with
it and a new one is opened. Nothing is ever written to disk. Memory is bounded by `capacity`: when it is full, the
servers pause until half is used, so that rounds in between have the processors for themselves; they say so to each
other, so that a slower consumer on one side is no time-out on the other.

A batch or a position that no honest server comes up with ends the session: `cheated` is told why.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.mpc.channel import DEADLINE_SECONDS, Channel, Link
from parley.mpc.errors import MpcError, PeerCheatedError, PeerError, PositionError, SessionClosedError
from parley.mpc.sampler import LANES
from parley.mpc.session import Session
from parley.mpc.steps import Steps
from parley.mpc.tables import Tables

Words = NDArray[np.uint64]
PAUSE_SECONDS = 0.5
"""Of a full pool, between two words to the other server; it says more at once when there is room."""
RETRY_SECONDS = 0.5
AHEAD_SECONDS = 1.0
"""For this server to come to where the other one says it is: both have agreed on the sums in between."""
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Reservation:
    """Samples start .. start + count of one epoch."""

    epoch: bytes
    start: int
    count: int


@dataclass
class Level:
    """What an operator sees of the pool; all of it public between the servers."""

    available: int
    capacity: int
    produced: int
    used: int
    lost: int
    sessions: int
    last_error: str | None


class NoisePool:
    """One server's pool. `connect` opens a fresh link to the other server; it is called for every new session."""

    def __init__(
        self, connect: Callable[[], Link], role: int, tables: Tables, capacity: int = 16 * LANES, lanes: int = LANES,
        deadline_seconds: float = DEADLINE_SECONDS, cheated: Callable[[PeerCheatedError], None] = lambda error: None,
    ) -> None:  # fmt: skip
        self._connect, self._role, self._tables = connect, role, tables
        self._capacity, self._lanes, self._deadline_seconds = max(capacity, 2 * lanes), lanes, deadline_seconds
        self._cheated = cheated
        self._changed = threading.Condition()
        self._chunks: list[tuple[int, Words]] = []
        self._live: set[Reservation] = set()
        self._epoch = b""
        self._produced = self._next = 0
        self._filling = True
        """Until it is full; then again once half is used."""
        self._level = Level(0, self._capacity if capacity else 0, 0, 0, 0, 0, None)
        self._channel: Channel | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._fill, daemon=True, name="noise-pool")

    def start(self) -> None:
        """Begin to fill."""
        self._thread.start()

    def stop(self) -> None:
        """End the session and forget everything."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            channel = self._channel
        if channel is not None:
            channel.close("the pool was stopped")
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)  # a thread that still waits for a connection is left to the process's end

    @property
    def tables(self) -> Tables:
        """Of the preset that the samples are of."""
        return self._tables

    def level(self) -> Level:
        with self._changed:
            self._level.available = max(self._produced - self._next, 0)
            return Level(**vars(self._level))

    # ------------------------------------------------------------ using samples

    def position(self, timeout_seconds: float) -> tuple[bytes, int]:
        """The epoch, and the first sample in it that is not reserved here; waits for a session to be open."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._epoch or self._stopping, timeout_seconds) or not self._epoch:
                raise PeerError(
                    f"no noise: no session with the other server ({self._level.last_error or 'still connecting'})"
                )
            return self._epoch, self._next

    def reserve(self, epoch: bytes, start: int, count: int) -> Reservation:
        """Take a range, for good. What lies before `start` unreserved is lost."""
        with self._changed:
            self._require_near(epoch, start)
            if epoch != self._epoch:
                raise SessionClosedError("the noise this sum was to get is gone: its session has ended")
            if start < self._next:
                raise SessionClosedError(
                    f"noise at {start} is reserved already, {self._next} is next: nothing is used twice"
                )
            self._level.lost += max(min(start, self._produced) - self._next, 0)
            self._next = start + count
            reservation = Reservation(epoch, start, count)
            self._live.add(reservation)
            self._drop_dead()
            self._changed.notify_all()
            return reservation

    def _require_near(self, epoch: bytes, start: int) -> None:
        """At most a batch from here. A server that may jump to any lane it likes would have its choice among them.

        What lies in between may be another run's, agreed on before this and not taken yet: it comes first.
        """
        self._changed.wait_for(lambda: self._stopping or self._epoch != epoch or start <= self._next, AHEAD_SECONDS)
        if self._epoch == epoch and start > self._next + self._lanes:
            error = PositionError(
                f"the other server is at noise sample {start:,} and this one at {self._next:,}, more than a batch "
                f"of {self._lanes:,} behind: the session has ended, another one is opened"
            )
            self._end_session(str(error))
            self._cheated(error)
            raise error

    def collect(self, reservation: Reservation, timeout_seconds: float) -> Iterator[Words]:
        """The reserved samples, piece by piece as they are made, each handed out once and erased here. What is left
        when the caller stops, for whatever reason, is lost.
        """
        try:
            yield from self._pieces(reservation, timeout_seconds)
        finally:
            self.release(reservation)

    def release(self, reservation: Reservation) -> None:
        """What is left of it is lost; nothing where it is none of this session's."""
        with self._changed:
            self._live.discard(reservation)
            self._drop_dead()
            self._changed.notify_all()

    def _pieces(self, reservation: Reservation, timeout_seconds: float) -> Iterator[Words]:
        position, end = reservation.start, reservation.start + reservation.count
        while position < end:
            with self._changed:
                ready = self._changed.wait_for(
                    lambda at=position: self._stopping or self._epoch != reservation.epoch or self._produced > at,  # type: ignore[misc]
                    timeout_seconds,
                )
                if self._stopping or self._epoch != reservation.epoch:
                    raise SessionClosedError("the noise this sum was to get is gone: its session has ended")
                if not ready:
                    raise PeerError(f"no noise within {timeout_seconds:g} s")
                piece = self._extract(position, end)
                self._level.used += len(piece)
                self._changed.notify_all()
            position += len(piece)
            yield piece

    def _extract(self, start: int, end: int) -> Words:
        for first, chunk in self._chunks:
            if first <= start < first + len(chunk):
                piece = chunk[start - first : end - first].copy()
                self._forget(start, start + len(piece))
                return piece
        raise SessionClosedError("these samples were handed out before")

    def _drop_dead(self) -> None:
        """Erase what lies before the next position and in no live reservation: nobody will ever ask for it."""
        at = 0
        for start, end in sorted((live.start, live.start + live.count) for live in self._live):
            self._forget(at, start)
            at = max(at, end)
        self._forget(at, self._next)

    def _forget(self, start: int, end: int) -> None:
        """Erase samples start .. end; a chunk goes when nothing of it is left."""
        kept = []
        for first, chunk in self._chunks:
            last = first + len(chunk)
            if start < end and start < last and first < end:
                chunk[max(start - first, 0) : end - first] = 0
                if start > first:
                    kept.append((first, chunk[: start - first]))
                if end < last:
                    kept.append((end, chunk[end - first :]))
            else:
                kept.append((first, chunk))
        self._chunks = kept

    # ------------------------------------------------------------ making samples

    def _fill(self) -> None:
        while not self._stopping:
            try:
                channel = Channel(self._connect(), self._deadline_seconds)
                with self._changed:
                    self._channel = channel
                self._one_session(Session(channel, self._role, self._tables))
            except (MpcError, OSError, ValueError) as error:
                self._end_session(str(error))
                if isinstance(error, PeerCheatedError):
                    self._cheated(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, RETRY_SECONDS)
            finally:
                self._end_session(self._level.last_error or "the pool's thread has ended")

    def _one_session(self, session: Session) -> None:
        with self._changed:
            self._epoch, self._produced, self._next = session.id, 0, 0
            self._level.sessions += 1
            self._changed.notify_all()
        try:
            while not self._stopping:
                session.channel.next_batch()
                if not session.channel.run(_both_ready(self._wants_more())):
                    self._wait_for_room()
                    continue
                samples = session.samples(self._lanes)
                with self._changed:
                    self._chunks.append((self._produced, samples))
                    self._produced += len(samples)
                    self._level.produced += len(samples)
                    self._drop_dead()
                    self._changed.notify_all()
        finally:
            session.close()

    def _wants_more(self) -> bool:
        with self._changed:
            room = sum(len(chunk) for _, chunk in self._chunks) + self._lanes <= self._capacity
            low = self._produced - self._next <= self._capacity // 2  # what is asked for and not made counts
            self._filling = room and (self._filling or low)
            return self._filling

    def _wait_for_room(self) -> None:
        """Here; if it is the other server that is full, its next word is what is waited for."""
        pause = min(PAUSE_SECONDS, self._deadline_seconds / 4)
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._wants_more(), pause)

    def _end_session(self, reason: str) -> None:
        with self._changed:
            self._level.lost += sum(len(chunk) for _, chunk in self._chunks)
            self._level.last_error = reason
            for _, chunk in self._chunks:
                chunk[:] = 0
            channel, self._channel = self._channel, None
            self._chunks, self._epoch = [], b""
            self._live.clear()
            self._changed.notify_all()
        if channel is not None:
            channel.close(reason)


def _both_ready(mine: bool) -> Steps[bool]:
    """Whether both servers have room for a batch."""
    (theirs,) = yield [np.array([mine], np.uint8)]
    return mine and bool(theirs[0])
