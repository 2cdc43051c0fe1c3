"""Standard-normal shares made ahead in the background; each is used once, or lost.

Both servers run the same batches and take them in the same order, so sample number i of a session (its `epoch`) is the
same sample on both. One worker makes them, or several by turns (parley.aggregator.workers). Positions are reserved for
a sum by agreement (parley.aggregator.opening), only ever forwards; what lies before a reservation and was not reserved
is lost. When a session ends, for whatever reason, all its unused samples are lost with it and a new one is opened.
Nothing is ever written to disk. Memory is bounded by `capacity`, with what waits for its turn and what is being made:
when it is full, the servers pause until half is used, so that rounds in between have the processors for themselves;
they say so to each other, so that a slower consumer on one side is no time-out on the other.

What kind of session fills a pool is its maker's choice (`begin`), and so is whether it fills at all now, and how large
a batch is (`demand`): both servers ask that of themselves before each batch, and the smaller batch is made. A session
may hand out less than it makes, or nothing for a while; what it hands out is the same on both servers.

A batch or a position that no honest server comes up with ends the session: `cheated` is told why. `broken` is told of
every session that ends so, or in the middle of a batch.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.level import Audits, Level
from parley.aggregator.streams import Crew, agree, knows_workers
from parley.aggregator.workers import MOST_BITS, Begin, Demand, Ended, Made, Staff, Turns, Workers, required
from parley.errors import ParleyError
from parley.mpc.channel import DEADLINE_SECONDS, Channel, Link
from parley.mpc.errors import CaughtError, PeerCheatedError, PeerError, PositionError, SessionClosedError
from parley.mpc.sampler import LANES
from parley.mpc.session import Session
from parley.mpc.tables import Tables

Words = NDArray[np.uint64]
PAUSE_SECONDS = 0.5
"""Of a full pool, between two words to the other server; it says more at once when there is room."""
RETRY_SECONDS = 0.5
AHEAD_SECONDS = 1.0
"""For this server to come to where the other one says it is: both have agreed on the sums in between."""
STOP_SECONDS = 5.0
ENDS = (ParleyError, OSError, ValueError)
"""What a session may end by."""


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


class NoisePool:
    """One server's pool. `connect` opens a fresh link to the other server; it is called for every new session."""

    def __init__(
        self, connect: Callable[[], Link], role: int, tables: Tables, capacity: int = 16 * LANES, lanes: int = LANES,
        deadline_seconds: float = DEADLINE_SECONDS, cheated: Callable[[PeerCheatedError], None] = lambda error: None,
        *, begin: Begin | None = None, demand: Callable[[], Demand] | None = None, least_lanes: int | None = None,
        broken: Callable[[Exception], None] = lambda error: None, staff: Staff | None = None,
    ) -> None:  # fmt: skip
        """`lanes` is the largest batch. Without `begin` and `demand`: plain sessions, always wanted. Without `staff`:
        one worker, over what `connect` opens; with it, `connect` opens the first one's stream.
        """
        self._connect, self._role, self._tables, self._staff = connect, role, tables, staff
        self._begin: Begin = begin or (lambda channel, demand: Session(channel, role, tables))
        self._demand = demand or (lambda: Demand(lanes))
        self._capacity, self._deadline_seconds = max(capacity, 2 * lanes), deadline_seconds
        self._lanes, self._least = lanes, least_lanes or lanes
        self._cheated, self._broken = cheated, broken
        self.placing = threading.Lock()
        """Of server A: held from saying a place in the noise to taking it (parley.aggregator.opening)."""
        self._changed = threading.Condition()
        self._chunks: list[tuple[int, Words]] = []
        self._live: set[Reservation] = set()
        self._epoch, self._rate, self._largest = b"", Fraction(0), 0
        """Of the session: its name, how often its batches are audited, lanes of the largest one."""
        self._asked_rate: Fraction | None = None
        self._produced = self._next = 0
        self._filling = True
        """Until it is full; then again once half is used."""
        self._level = Level(0, self._capacity if capacity else 0, 0, 0, 0, 0, None)
        self._channel: Channel | None = None
        self._workers: Workers | None = None
        self._turns, self._tally = Turns(1), (0, 0)
        """Of the session: what waits for its turn, and the audits in all turns that have come."""
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
        self._end_session("the pool was stopped")
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)  # a thread that still waits for a connection is left to the process's end

    @property
    def tables(self) -> Tables:
        """Of the preset that the samples are of."""
        return self._tables

    def level(self) -> Level:
        with self._changed:
            working = self._workers
            self._level.available = max(self._produced - self._next, 0) if self._epoch else 0
            return Level(**{**vars(self._level), "audits": _sum(self._audits, working.audits() if working else (0, 0))})

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
                ended = self._one_crew(demand)
            except ENDS as error:
                ended = [Ended(error, False)]
                self._end_session(str(error))
            finally:
                self._end_session(self._level.last_error or "the pool's thread has ended")
            if ended:
                self._tell(ended)  # what one worker has caught is told of, whatever another one ended by
                required(ended, ENDS)
            if ended or self._demand() == demand:  # whoever ends sessions does not get the next one at once
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, RETRY_SECONDS)

    def _rest(self, reason: str) -> None:
        """Until something is asked for; looked at again and again, for what decides it may be in other processes."""
        with self._changed:
            self._level.resting = reason or "nothing is asked for"
            self._changed.notify_all()
            if self._changed.wait_for(lambda: self._stopping or self._demand().lanes, RETRY_SECONDS):
                self._level.resting = ""

    def _tell(self, ended: list[Ended]) -> None:
        """Whoever counts how sessions end, once for a crew, and of all that was caught."""
        errors = [each.error for each in ended if each.suspicious]
        caught = [error for error in errors if isinstance(error, CaughtError)]
        for error in [] if self._stopping else caught or errors[:1]:
            self._broken(error)
        for kind in {type(error): error for error in reversed(errors) if error not in caught}.values():
            if isinstance(kind, PeerCheatedError):
                self._cheated(kind)
        for error in caught:
            self._cheated(error)

    def _one_crew(self, demand: Demand) -> list[Ended]:
        """From the first stream to the last worker's end."""
        link = self._connect()
        channel = Channel(link, self._deadline_seconds)
        with self._changed:
            self._channel = channel
            if self._stopping:
                return []
        crew, staff = Crew(1), self._staff
        if staff is not None and knows_workers(link, time.monotonic() + self._deadline_seconds):
            crew = channel.run(agree(self._role, lambda round_trip: staff.wanted(round_trip, demand.lanes)))
        channel.place = crew.place(0)
        workers = Workers(self, self._role, crew, demand, self._begin, staff, self._least, self._deadline_seconds)
        with self._changed:
            self._workers = workers
            self._level.workers = crew.workers
        ended = workers.run(channel)
        with self._changed:
            self._audits, self._workers = _sum(self._audits, workers.audits()), None
        return ended

    # what workers ask and say

    def opened(self, epoch: bytes, demand: Demand, turns: Turns) -> None:
        with self._changed:
            self._asked_rate, self._rate, self._largest = demand.audit_rate, demand.audit_rate or Fraction(0), 0
            self._epoch, self._produced, self._next = epoch, 0, 0
            self._turns, self._tally = turns, (0, 0)
            self._level.sessions += 1
            self._changed.notify_all()

    def asked(self) -> Demand | None:
        now = self._demand()
        with self._changed:
            return None if now.lanes < max(self._largest, 1) or now.audit_rate != self._asked_rate else now

    def begun(self, lanes: int) -> None:
        with self._changed:
            self._level.lanes, self._largest = lanes, max(self._largest, lanes)

    def hand_in(self, turn: int, made: Made) -> None:
        with self._changed:
            if self._epoch:
                self._turns.hand_in(turn, made)
                self._take_due()
            else:
                made.samples[:] = 0
                self._level.lost += len(made.samples)

    def look_again(self) -> None:
        with self._changed:
            if self._epoch:
                self._take_due()

    def _take_due(self) -> None:
        for made in self._turns.due():
            self._tally = _sum(self._tally, made.audits)
            if len(made.samples):
                self._chunks.append((self._produced, made.samples))
                self._produced += len(made.samples)
                self._counted.append((self._produced, self._tally))
                self._level.produced += len(made.samples)
        self._drop_dead()
        self._changed.notify_all()

    def wants(self, turn: int) -> bool:
        with self._changed:
            room = (self._capacity - sum(len(chunk) for _, chunk in self._chunks)) // self._lanes
            low = self._produced - self._next <= self._capacity // 2  # what is asked for and not made counts
            self._filling = room > 0 and (self._filling or low)
            return bool(self._filling and self._epoch and self._turns.may_begin(turn, room))

    def wait(self, turn: int) -> None:
        """Here; if it is the other server that is full, its next word is what is waited for."""
        pause = min(PAUSE_SECONDS, self._deadline_seconds / 4)
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or not self._epoch or self.wants(turn), pause)

    def emptied(self, reason: str) -> None:
        with self._changed:
            self._level.last_error = reason
            self._level.lost += sum(len(chunk) for _, chunk in self._chunks) + self._turns.erase()
            for _, chunk in self._chunks:
                chunk[:] = 0
            self._counted.clear()
            self._chunks, self._epoch = [], b""
            self._live.clear()
            self._changed.notify_all()

    def _end_session(self, reason: str) -> None:
        """All of it, now."""
        with self._changed:
            self.emptied(reason)
            channel, self._channel = self._channel, None
            workers = self._workers
        if workers is not None:
            workers.stop(reason)
        if channel is not None:
            channel.close(reason)


def _sum(one: Audits, other: Audits) -> Audits:
    return one[0] + other[0], one[1] + other[1]
