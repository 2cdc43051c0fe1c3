"""The noise of one server: a pool of plain sessions, and one of sessions whose batches both servers audit.

Which samples a run gets is in its manifest. Each kind has a stream of its own, which A dials and B takes by what it is
called, so that nothing is agreed on between the two; and B takes no audited stream while its own books have no run that
needs one. Audited noise is made only while there is such a run:

    its batches    so small that the smallest open run draws on BATCHES of them, and no smaller than LEAST_LANES
    its audits     at the highest rate that an open run asks for
    not at all     while evidence against the other server waits for the operator, or for an hour after more than
                   MOST_BREAKS sessions broke off in the middle of a batch or by a check, with nothing to show for it
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import grpc

from parley.aggregator.grpc_link import Door, dial
from parley.aggregator.pool import NoisePool
from parley.aggregator.workers import Demand, NoiseSession, Staff
from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.mpc.audit import Hold
from parley.mpc.channel import Channel, Link
from parley.mpc.covert import CovertSession, Signing
from parley.mpc.errors import CaughtError, MpcError, PeerCheatedError
from parley.mpc.evidence import MOST_LANES, Evidence
from parley.mpc.tables import Tables
from parley.node import logs
from parley.node.collector import KEPT_FOR_AUDITS, keep_freed
from parley.node.evidence import Held

log = logs.logger()
LEAST_LANES, BATCHES = 1 << 10, 32
MOST_BREAKS, BREAKS_SECONDS = 3, 3600.0


def batch_lanes(samples: int) -> int:
    """Of audited batches, so that a run of so many joint samples draws on BATCHES of them at least."""
    each = max(samples // BATCHES, 1)
    return min(max(1 << (each.bit_length() - 1), LEAST_LANES), MOST_LANES)


@dataclass(frozen=True)
class Open:
    """What the audited pool has to know of the runs that need it."""

    lanes: int = 0
    audit_rate: Fraction | None = None

    @classmethod
    def of(cls, runs: Iterable[Manifest]) -> "Open":
        """By their manifests alone, so that both servers come to the same."""
        found = [run for run in runs if run.noise.parts.security == "covert"]
        if not found:
            return cls()
        lanes = min(batch_lanes(run.joint_samples) for run in found)
        return cls(lanes, max(run.noise.parts.audit_rate for run in found))


class Breaks:
    """How often sessions broke off with nothing to show for it, within an hour."""

    def __init__(self, stopped: Callable[[int], object]) -> None:
        self._at: deque[float] = deque(maxlen=MOST_BREAKS + 1)
        self._stopped = stopped
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self._at.append(time.monotonic())
        if self.too_many:
            self._stopped(len(self._at))

    @property
    def too_many(self) -> bool:
        with self._lock:
            return len(self._at) > MOST_BREAKS and self._at[0] > time.monotonic() - BREAKS_SECONDS

    def __str__(self) -> str:
        return (
            f"{len(self._at)} noise sessions broke off within an hour, in the middle of a batch or by a check: find "
            "out why with the other server's operator, then start this server again"
        )


@dataclass(frozen=True)
class Ways:
    """How noise sessions come about."""

    role: int
    dialled: Callable[[], grpc.Channel] | None
    """On server A: the connection to B."""
    doors: "Doors"
    """On server B: what A has dialled."""
    signing: Callable[[], Signing]
    keep: Callable[[Evidence], None]
    """What an audit has found, to the disk."""
    hold: Hold
    """What it would find, until its verdict."""
    note: Callable[..., object]


class Doors:
    """Server B's, one for each kind of stream."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.plain, self.covert = Door(), Door(wanted)

    def close(self) -> None:
        self.plain.close()
        self.covert.close()


class Noise:
    """Both pools."""

    def __init__(
        self, ways: Ways, tables: Tables, capacity: int, pending: Callable[[], Sequence[Held]],
        cheated: Callable[[PeerCheatedError], None], workers: int | Literal["auto"] = "auto",
    ) -> None:  # fmt: skip
        self._ways, self._tables, self._pending = ways, tables, pending
        self._open = Open()
        self._unkept: list[Evidence] = []
        self._breaks = Breaks(lambda count: _told(lambda: ways.note("noise.stopped", count=count)))

        def tell(error: PeerCheatedError) -> None:
            _told(lambda: cheated(error))

        def staff(covert: bool) -> Staff:
            return Staff(workers, lambda number, over: self._further(covert, number, over))

        self.plain = NoisePool(
            lambda: self._link(False), ways.role, tables, capacity, cheated=tell, staff=staff(False)
        )  # fmt: skip
        self.covert = NoisePool(
            lambda: self._link(True), ways.role, tables, capacity, MOST_LANES, cheated=tell, begin=self._begin,
            demand=self.demand, least_lanes=LEAST_LANES, broken=self._broken, staff=staff(True),
        )  # fmt: skip

    def start(self) -> None:
        self.plain.start()
        self.covert.start()

    def stop(self) -> None:
        self.plain.stop()
        self.covert.stop()

    def follow(self, runs: Iterable[Manifest]) -> None:
        """Those that are open now."""
        self._open = Open.of(runs)

    def demand(self) -> Demand:
        """Of the audited pool; from any thread."""
        if not self._kept_at_last():
            return Demand(0, reason="the other server was caught, and the evidence cannot be kept: free the disk")
        try:
            pending = self._pending()
        except MpcError as error:
            return Demand(0, reason=str(error))
        if pending:
            return Demand(0, reason=f"{pending[-1]} waits for `parley evidence answer`")
        if self._breaks.too_many:
            return Demand(0, reason=str(self._breaks))
        if not self._open.lanes:
            return Demand(0, reason="no open run needs audited noise")
        return Demand(self._open.lanes, self._open.audit_rate)

    @property
    def wanted(self) -> bool:
        """Whether audited noise is made here now."""
        return self.demand().lanes > 0

    def _link(self, covert: bool) -> Link:
        """For the next session of this kind."""
        if self._ways.dialled is not None:
            return dial(self._ways.dialled(), covert)
        return (self._ways.doors.covert if covert else self._ways.doors.plain).take()

    def _further(self, covert: bool, number: int, over: Callable[[], bool]) -> Link:
        """The stream of a further worker, for as long as somebody waits for it."""
        if self._ways.dialled is not None:
            return dial(self._ways.dialled(), covert, number)
        return (self._ways.doors.covert if covert else self._ways.doors.plain).take_worker(number, over)

    def _begin(self, channel: Channel, demand: Demand) -> NoiseSession:
        assert demand.audit_rate is not None
        ways = self._ways
        keep_freed(KEPT_FOR_AUDITS)
        rate, signing = demand.audit_rate, ways.signing()
        return CovertSession(channel, ways.role, self._tables, signing, rate, ways.keep, hold=ways.hold)

    def _broken(self, error: Exception) -> None:
        """With evidence that holds, it is no accident; what a full disk did not take is offered again."""
        if isinstance(error, CaughtError):
            self._unkept.append(error.evidence)
            if not self._kept_at_last() or self._waits():
                return
        self._breaks.add()

    def _waits(self) -> bool:
        try:
            return bool(self._pending())
        except MpcError:  # what cannot be read lets nothing begin either
            return True

    def _kept_at_last(self) -> bool:
        """Whether all evidence is on the disk: until then no session is begun, for its peer was caught."""
        while self._unkept:
            try:
                self._ways.keep(self._unkept[0])
            except (FederationError, OSError) as error:
                log.error("evidence cannot be kept", error=error)
                return False
            self._unkept.pop(0)
        return True


def _told(tell: Callable[[], object]) -> None:
    """A full disk that takes no line of the trail ends no pool: what holds evidence goes on with it."""
    try:
        tell()
    except (FederationError, OSError) as error:
        log.error("what ended a noise session is not in the trail", error=error)
