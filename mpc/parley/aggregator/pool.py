"""Standard-normal shares made ahead in the background; each is used once, or lost.

Both servers run the same batches over one session, so sample number i of a session (its `epoch`) is the same sample on
both. Positions are reserved for a sum by agreement (parley.aggregator.opening), only ever forwards; what lies before a
reservation and was not reserved is lost. When a session ends, for whatever reason, all its unused samples are lost with
it and a new one is opened. Nothing is ever written to disk. Memory is bounded by `capacity`: when it is full, the
servers pause until half is used, so that rounds in between have the processors for themselves; they say so to each
other, so that a slower consumer on one side is no time-out on the other.

What kind of session fills a pool is its maker's choice (`begin`), and so is whether it fills at all now, and how large
a batch is (`demand`): both servers ask that of themselves before each batch, and the smaller batch is made. A session
may hand out less than it makes, or nothing for a while; what it hands out is the same on both servers.

A batch or a position that no honest server comes up with ends the session: `cheated` is told why. `broken` is told of
every session that ends so, or in the middle of a batch.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.level import Audits, Level
from parley.errors import ParleyError
from parley.mpc.channel import DEADLINE_SECONDS, Channel, Link
from parley.mpc.errors import FrameError, PeerCheatedError, PeerError, PositionError, SessionClosedError
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
MOST_BITS = 32
"""Of a batch's length: more is no length."""


@dataclass(eq=False)
class Reservation:
    """Samples start .. start + count of one epoch."""

    epoch: bytes
    start: int
    count: int
    audits: Audits = (0, 0)
    """In that epoch, before the batch that the last of these samples is from: known when it was collected. What is made
    on one server is passed on the other.
    """


@dataclass(frozen=True)
class Demand:
    """What is asked of a pool now."""

    lanes: int
    """Of a batch, a power of two; with 0 no session is kept open."""
    audit_rate: Fraction | None = None
    """Of a session that audits batches. Where another, or smaller batches, are asked for, a new session begins."""
    reason: str = ""
    """Where nothing is asked for: why not."""


class NoiseSession(Protocol):
    """What a pool draws on: `parley.mpc.session.Session`, or one that keeps to its methods."""

    id: bytes
    channel: Channel

    def samples(self, lanes: int) -> Words:
        """One batch is made; what is ready comes back, in order, the same on both servers."""
        ...

    def close(self) -> None: ...


Begin = Callable[[Channel, Demand], NoiseSession]


class NoisePool:
    """One server's pool. `connect` opens a fresh link to the other server; it is called for every new session."""

    def __init__(
        self, connect: Callable[[], Link], role: int, tables: Tables, capacity: int = 16 * LANES, lanes: int = LANES,
        deadline_seconds: float = DEADLINE_SECONDS, cheated: Callable[[PeerCheatedError], None] = lambda error: None,
        *, begin: Begin | None = None, demand: Callable[[], Demand] | None = None, least_lanes: int | None = None,
        broken: Callable[[Exception], None] = lambda error: None,
    ) -> None:  # fmt: skip
        """`lanes` is the largest batch. Without `begin` and `demand`: plain sessions, always wanted."""
        self._connect, self._tables = connect, tables
        self._begin: Begin = begin or (lambda channel, demand: Session(channel, role, tables))
        self._demand = demand or (lambda: Demand(lanes))
        self._capacity, self._deadline_seconds = max(capacity, 2 * lanes), deadline_seconds
        self._lanes, self._least = lanes, least_lanes or lanes
        self._cheated, self._broken = cheated, broken
        self.placing = threading.Lock()
        """Of server A: held from saying a place in the noise to taking it (parley.aggregator.opening)."""
        self._in_batch = False
        self._changed = threading.Condition()
        self._chunks: list[tuple[int, Words]] = []
        self._live: set[Reservation] = set()
        self._epoch, self._rate, self._largest = b"", Fraction(0), 0
        """Of the session: its name, how often its batches are audited, lanes of the largest one."""
        self._produced = self._next = 0
        self._filling = True
        """Until it is full; then again once half is used."""
        self._level = Level(0, self._capacity if capacity else 0, 0, 0, 0, 0, None)
        self._channel: Channel | None = None
        self._session: NoiseSession | None = None
        self._audits: Audits = (0, 0)
        """Of sessions that have ended."""
        self._counted: deque[tuple[int, Audits]] = deque()
        """Of each batch that is not used up yet: where its samples end, and the audits before it."""
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
            self._level.available = max(self._produced - self._next, 0) if self._epoch else 0
            return Level(**{**vars(self._level), "audits": _sum(self._audits, _audits(self._session))})

    # ------------------------------------------------------------ using samples

    def position(
        self, timeout_seconds: float, rate: Fraction | int = 0, most_lanes: int = 1 << MOST_BITS
    ) -> tuple[bytes, int]:
        """The epoch, and the first sample in it that is not reserved here; waits for a session to be open that is
        audited at this rate at least, in batches of so many lanes at most. An older one goes on for as long as the
        other server is silent.
        """

        def fits() -> bool:
            return bool(self._epoch) and self._rate >= rate and self._largest <= most_lanes

        with self._changed:
            if not self._changed.wait_for(lambda: self._stopping or fits(), timeout_seconds) or not fits():
                why = self._level.resting or self._level.last_error or "still connecting"
                raise PeerError(f"no noise: no session with the other server ({why})")
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
                if position + len(piece) == end:
                    reservation.audits = next((found for upto, found in self._counted if upto >= end), (0, 0))
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
        needed = min((live.start for live in self._live), default=self._next)
        while self._counted and self._counted[0][0] <= needed:
            self._counted.popleft()

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
            if not (demand := self._demand()).lanes:
                self._rest(demand.reason)
                continue
            try:
                channel = Channel(self._connect(), self._deadline_seconds)
                with self._changed:
                    self._channel = channel
                self._one_session(self._begin(channel, demand), demand)
            except (ParleyError, OSError, ValueError) as error:
                self._end_session(str(error))
                self._tell(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, RETRY_SECONDS)
            finally:
                self._end_session(self._level.last_error or "the pool's thread has ended")

    def _rest(self, reason: str) -> None:
        """Until something is asked for; looked at again and again, for what decides it may be in other processes."""
        with self._changed:
            self._level.resting = reason or "nothing is asked for"
            self._changed.notify_all()
            if self._changed.wait_for(lambda: self._stopping or self._demand().lanes, RETRY_SECONDS):
                self._level.resting = ""

    def _tell(self, error: Exception) -> None:
        """Whoever counts how sessions end: only what may be the other server's doing."""
        suspicious = isinstance(error, PeerCheatedError | FrameError) or self._in_batch
        self._in_batch = False
        if suspicious and not self._stopping:
            self._broken(error)
        if isinstance(error, PeerCheatedError):
            self._cheated(error)

    def _one_session(self, session: NoiseSession, demand: Demand) -> None:
        with self._changed:
            self._session, self._rate, self._largest = session, demand.audit_rate or Fraction(0), 0
            self._epoch, self._produced, self._next = session.id, 0, 0
            self._level.sessions += 1
            self._changed.notify_all()
        try:
            while not self._stopping:
                now = self._demand()
                if now.lanes < max(self._largest, 1) or now.audit_rate != demand.audit_rate:
                    self._end_session("the runs that are open ask for other noise")
                    return
                session.channel.next_batch()
                lanes = session.channel.run(_both_ready(now.lanes if self._wants_more() else 0, self._least))
                if not lanes:
                    self._wait_for_room()
                    continue
                self._in_batch, self._level.lanes, self._largest = True, lanes, max(self._largest, lanes)
                self._take(session.samples(lanes))
                self._in_batch = False
        finally:
            session.close()

    def _take(self, samples: Words) -> None:
        if not len(samples):
            return
        with self._changed:
            self._chunks.append((self._produced, samples))
            self._produced += len(samples)
            self._counted.append((self._produced, _audits(self._session)))
            self._level.produced += len(samples)
            self._drop_dead()
            self._changed.notify_all()

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
            self._audits, self._session = _sum(self._audits, _audits(self._session)), None
            self._counted.clear()
            self._chunks, self._epoch = [], b""
            self._live.clear()
            self._changed.notify_all()
        if channel is not None:
            channel.close(reason)


def _audits(session: NoiseSession | None) -> Audits:
    """Of a session that has some."""
    return getattr(session, "audits_made", 0), getattr(session, "audits_borne", 0)


def _sum(one: Audits, other: Audits) -> Audits:
    return one[0] + other[0], one[1] + other[1]


def _both_ready(mine: int, least: int) -> Steps[int]:
    """The smaller of both servers' batches, each a power of two; 0 where either has no room for one."""
    (theirs,) = yield [np.array([mine.bit_length()], np.uint8)]
    said = int(theirs[0])
    if said and not least.bit_length() <= said <= MOST_BITS:
        raise FrameError(f"the other server wants batches of 2^{said - 1} lanes: at least {least} are made here")
    return min(mine, 1 << (said - 1)) if mine and said else 0
