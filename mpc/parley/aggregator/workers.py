"""Who fills a pool of noise: one worker or several, each with a stream and a session of its own, by turns.

A batch takes some twenty exchanges, so on a long line one worker leaves the processors idle, and on many cores it uses
one of them. Batch k of worker w has turn k·n + w, of n workers; the pool takes batches in the order of their turns,
which is fixed before anybody knows a thing about them. By order of arrival a server that lies would pick, holding back
what it does not like. A batch that is made before its turn waits; so does every batch after one whose audit has no
verdict yet, whichever worker made it.

All workers of a crew end together. Where one fails in the middle of a batch, or catches the other server, all streams
are closed at once and every sample that no sum has taken is lost: no batch is ever skipped because it did not come.
Where one ends between two batches (a run that asks for other noise, a server that goes away), no sample of the crew is
given out any more, and the others end after the batch that they are at.
"""

import math
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.level import Audits
from parley.aggregator.streams import Crew, join
from parley.mpc.channel import Channel, Link
from parley.mpc.errors import FrameError, PeerCheatedError
from parley.mpc.steps import Steps
from parley.node.node_file import MOST_WORKERS

Words = NDArray[np.uint64]
MOST_BITS = 32
"""Of a batch's length: more is no length."""
EXCHANGES = 20
"""Of a batch, as `enough` counts."""
LANE_SECONDS = 10e-6
"""Of processor, likewise."""
MOST_LANES_AT_ONCE = 1 << 17
"""In all workers together: a lane that is in the making takes 8 kB, under audit 15 kB."""


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
    """What a worker draws on: `parley.mpc.session.Session`, or one that keeps to its methods."""

    id: bytes
    channel: Channel

    def samples(self, lanes: int) -> Words:
        """One batch is made; what is ready comes back, in order, the same on both servers."""
        ...

    def close(self) -> None: ...


Begin = Callable[[Channel, Demand], NoiseSession]


@dataclass(frozen=True)
class Staff:
    """Where a pool may have more than one worker."""

    most: int | Literal["auto"]
    connect: Callable[[int, Callable[[], bool]], Link]
    """The stream of a worker; until it has come, or until that says that nobody waits any more."""
    cores: int = 0
    """0: as many as this process may use."""

    def wanted(self, round_trip: float, lanes: int) -> int:
        """On such a line, in batches of so many lanes."""
        most = max(MOST_LANES_AT_ONCE // lanes, 1)
        if self.most != "auto":
            return min(self.most, most)
        return min(enough(self.cores or len(os.sched_getaffinity(0)), round_trip, lanes), most)


def enough(cores: int, round_trip: float, lanes: int) -> int:
    """Workers to keep half of the cores busy: the others are for the rounds. An exchange takes half a round trip."""
    waits = EXCHANGES * round_trip / 2
    return min(math.ceil(max(cores // 2, 1) * (1 + waits / (LANE_SECONDS * lanes)) - 0.5), MOST_WORKERS) or 1


@dataclass(frozen=True)
class Made:
    """One batch, as it was handed in."""

    samples: Words
    audits: Audits
    """Of this batch: by this server, and by the other one."""
    settled: Callable[[], bool]
    """Whether this server's audits of this worker, up to and with this batch, have found nothing."""


class Turns:
    """Batches that wait for those before them."""

    def __init__(self, workers: int) -> None:
        self._workers, self._next = workers, 0
        self._early: dict[int, Made] = {}

    def may_begin(self, turn: int, room: int) -> bool:
        """Where there is room for so many batches: one for each turn up to this one must fit."""
        return turn < self._next + min(room, 2 * self._workers)

    def hand_in(self, turn: int, made: Made) -> None:
        self._early[turn] = made

    def due(self) -> Iterator[Made]:
        """Those whose turn it is."""
        while (made := self._early.get(self._next)) is not None and made.settled():
            del self._early[self._next]
            self._next += 1
            yield made

    def erase(self) -> int:
        """How many samples waited in vain."""
        lost = sum(len(made.samples) for made in self._early.values())
        for made in self._early.values():
            made.samples[:] = 0
        self._early.clear()
        return lost


class Filled(Protocol):
    """The pool, as its workers see it."""

    def opened(self, epoch: bytes, demand: Demand, turns: Turns) -> None: ...

    def asked(self) -> Demand | None:
        """What each next batch is made for; None where that takes another session."""
        ...

    def wants(self, turn: int) -> bool:
        """Whether there is room for the batch of this turn."""
        ...

    def wait(self, turn: int) -> None:
        """Until there is, for a while."""
        ...

    def begun(self, lanes: int) -> None: ...

    def hand_in(self, turn: int, made: Made) -> None: ...

    def look_again(self) -> None:
        """A verdict has come."""
        ...

    def emptied(self, reason: str) -> None:
        """Nothing of this crew is given out any more."""
        ...


@dataclass(frozen=True)
class Ended:
    """How a worker ended, where by an error."""

    error: Exception
    in_batch: bool

    @property
    def suspicious(self) -> bool:
        """What may be the other server's doing."""
        return self.in_batch or isinstance(self.error, PeerCheatedError | FrameError)


class Workers:
    """Those of one crew."""

    def __init__(
        self, pool: Filled, role: int, crew: Crew, demand: Demand, begin: Begin, staff: Staff | None, least_lanes: int,
        deadline_seconds: float,
    ) -> None:  # fmt: skip
        self._pool, self._role, self._crew, self._demand = pool, role, crew, demand
        self._begin, self._staff, self._least, self._deadline_seconds = begin, staff, least_lanes, deadline_seconds
        # The number of workers was agreed on for batches of the first size: later ones may grow within the same memory.
        self._largest = max(demand.lanes, 1 << ((MOST_LANES_AT_ONCE // crew.workers).bit_length() - 1))
        self._lock = threading.Lock()
        self._over = False
        self._channels: list[Channel] = []
        self._joining: list[Channel] = []
        self._sessions: list[NoiseSession] = []
        self._ended: list[Ended] = []

    @property
    def over(self) -> bool:
        """No further batch is begun."""
        return self._over

    def audits(self) -> Audits:
        """Of all of them so far."""
        each = [_audits(session) for session in self._sessions]
        return sum(made for made, _ in each), sum(borne for _, borne in each)

    def run(self, first: Channel) -> list[Ended]:
        """The first one here, the others beside it: until all have ended."""
        others = [
            threading.Thread(target=self._other, args=(number,), daemon=True, name=f"noise-worker-{number}")
            for number in range(1, self._crew.workers)
        ]

        def opened(session: NoiseSession) -> None:
            self._pool.opened(session.id, self._demand, Turns(self._crew.workers))
            for thread in others:
                thread.start()

        self._work(0, lambda: first, opened)
        self.wind("its first worker has ended")
        for thread in others:
            if thread.ident is not None:
                thread.join()
        return self._ended

    def wind(self, reason: str) -> None:
        """No batch is begun any more, and what was made is lost; a batch that is under way ends as it does."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self._pool.emptied(reason)
        for channel in list(self._joining):  # the other server's crew may be over: then nobody answers there
            channel.close(reason)

    def stop(self, reason: str) -> None:
        """All of them, now."""
        self.wind(reason)
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.close(reason)

    # ------------------------------------------------------------ one of them

    def _other(self, number: int) -> None:
        self._work(number, lambda: self._joined(number), lambda session: None)

    def _joined(self, number: int) -> Channel:
        assert self._staff is not None
        link = self._staff.connect(number, lambda: self._over)
        channel = Channel(link, self._deadline_seconds, self._crew.place(number))
        self._joining.append(channel)
        self._keep(channel)
        channel.run(join(self._role, self._crew, number))
        self._joining.remove(channel)
        return channel

    def _keep(self, channel: Channel) -> None:
        """To be closed with all others."""
        with self._lock:
            self._channels.append(channel)
            over = self._over
        if over:
            channel.close("its crew has ended")

    def _work(self, number: int, connect: Callable[[], Channel], opened: Callable[[NoiseSession], None]) -> None:
        """From its stream to its end; only the first suspicious end, and what audits find, is told of."""
        busy = _Busy()
        try:
            channel = connect()
            if number == 0:
                self._keep(channel)
            try:
                session = self._begin(channel, self._demand)
            except BaseException:
                channel.close("no session began on it")  # or the other server's worker waits for its deadline
                raise
            self._sessions.append(session)
            if (tell := getattr(session, "tell_verdicts", None)) is not None:
                tell(self._pool.look_again)
            try:
                opened(session)
                self._batches(number, session, busy)
            finally:
                session.close()
        except Exception as error:
            ended = Ended(error, busy.now)
            self._ended.append(ended)
            (self.stop if ended.suspicious else self.wind)(str(error))

    def _batches(self, number: int, session: NoiseSession, busy: "_Busy") -> None:
        turn, channel = number, session.channel
        while not self._over:
            if (now := self._pool.asked()) is None:
                self.wind("the runs that are open ask for other noise")
                return
            channel.next_batch()
            mine = min(now.lanes, self._largest) if self._pool.wants(turn) else 0
            lanes = channel.run(_both_ready(mine, self._least))
            if not lanes:
                self._pool.wait(turn)
                continue
            busy.now = True
            self._pool.begun(lanes)
            before = _audits(session)
            samples = session.samples(lanes)
            self._pool.hand_in(turn, Made(samples, _difference(_audits(session), before), _settled(session)))
            busy.now = False
            turn += self._crew.workers


class _Busy:
    """Whether a worker is in the middle of a batch."""

    now = False


def _settled(session: NoiseSession) -> Callable[[], bool]:
    """As of now; a session without audits has nothing to wait for."""
    due: int = getattr(session, "audits_made", 0)
    return lambda: getattr(session, "audits_settled", due) >= due


def _audits(session: NoiseSession) -> Audits:
    return getattr(session, "audits_made", 0), getattr(session, "audits_borne", 0)


def _difference(after: Audits, before: Audits) -> Audits:
    return after[0] - before[0], after[1] - before[1]


def required(ended: list[Ended], expected: tuple[type[Exception], ...]) -> None:
    """Raise what no session ends by: it is a fault of this program."""
    for each in ended:
        if not isinstance(each.error, expected):
            raise each.error


def _both_ready(mine: int, least: int) -> Steps[int]:
    """The smaller of both servers' batches, each a power of two; 0 where either has no room for one."""
    (theirs,) = yield [np.array([mine.bit_length()], np.uint8)]
    said = int(theirs[0])
    if said and not least.bit_length() <= said <= MOST_BITS:
        raise FrameError(f"the other server wants batches of 2^{said - 1} lanes: at least {least} are made here")
    return min(mine, 1 << (said - 1)) if mine and said else 0
