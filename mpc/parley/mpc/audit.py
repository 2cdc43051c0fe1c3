"""A server's audits of the other one: each in a thread of its own, beside the batches that follow."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from parley.mpc import crash
from parley.mpc.errors import CaughtError, PeerCheatedError
from parley.mpc.evidence import Evidence, Verify, judge
from parley.mpc.handover import Opening
from parley.mpc.kernels import Kernels
from parley.mpc.replay import Kept, departure
from parley.mpc.tables import Tables
from parley.mpc.transfers import Room

Hold = Callable[[Evidence], Callable[[], None]]
"""Makes what would be evidence durable before there is a verdict on it; what comes back forgets it again."""


def held_nowhere(evidence: Evidence) -> Callable[[], None]:
    """Where a crash may lose it."""
    return _nothing


def _nothing() -> None:
    """What is left to examine, and to forget."""


class Examination(threading.Thread):
    """One replay. It ends by itself, whatever becomes of the session: who is caught may well hang up."""

    def __init__(self, examine: Callable[[], None], told: Callable[[], None]) -> None:
        super().__init__(name="noise-audit", daemon=False)
        self._examine, self._told = examine, told
        self._error: BaseException | None = None
        self.passed = False

    def run(self) -> None:
        try:
            self._examine()
            self.passed = True
            self._told()
        except BaseException as error:  # raised where the verdict is awaited
            self._error = error
        finally:
            self._examine = self._told = _nothing  # all frames of the batch

    def verdict(self) -> None:
        """Wait for it; what it found is raised."""
        self.join()
        if self._error is not None:
            raise self._error


@dataclass
class Audits:
    """All of one session."""

    native: Kernels
    tables: Tables
    verify: Verify
    keep: Callable[[Evidence], None]
    """Makes evidence durable."""
    end: Callable[[str], None]
    """Closes the session."""
    hold: Hold = held_nowhere
    made: int = 0
    passed: int = 0
    told: Callable[[], None] = _nothing
    """Called after each one that found nothing."""

    def __post_init__(self) -> None:
        self._waiting: list[Examination] = []
        self._rooms: list[Room] = []
        """Of replays that have ended, for those to come."""
        self._heard = 0

    @property
    def settled(self) -> int:
        """The oldest so many have found nothing: a later one may well be through before them."""
        return self._heard + sum(1 for _ in takewhile(lambda each: each.passed, self._waiting))

    @property
    def waiting(self) -> int:
        """Whose verdict nobody has heard yet."""
        return len(self._waiting)

    def begin(self, evidence: Evidence, said: Opening, kept: Kept) -> None:
        """`evidence` is what it would be if this found something: it is held before the other server can know that
        there is an audit, so that nothing is gained by having this one die. Where it cannot be held the error comes
        from here, and the audit is made all the same.
        """
        self.made += 1
        room = self._rooms.pop() if self._rooms else Room()
        forget: Callable[[], None] = _nothing
        try:
            forget = self.hold(evidence)
        finally:
            begun = Examination(lambda: self._examine(evidence, said, kept, room, forget), self.told)
            self._waiting.append(begun)
            begun.start()

    def hear(self, count: int) -> None:
        """Wait for the verdicts of the oldest ones; the first finding is raised."""
        try:
            for examination in self._waiting[:count]:
                examination.verdict()
                # It stays the oldest until it is through, and leaves before it is counted: `settled`, which other
                # threads read meanwhile, never takes a later one for it, nor it for two.
                self._waiting = self._waiting[1:]
                self._heard += 1
        except BaseException:
            self._waiting = []  # the session is over: one finding is enough to be raised
            raise

    def _examine(self, evidence: Evidence, said: Opening, kept: Kept, room: Room, forget: Callable[[], None]) -> None:
        """Ends with a verdict, which is what `forget` waits for, or by a fault of this machine."""
        crash.point("aggregator.auditing")
        try:
            why = departure(self.native, self.tables, evidence.record, evidence.role, said, kept, room)
            self._rooms.append(room)
            if why is not None:
                self._accuse(evidence, why, forget)
            forget()
            self.passed += 1
        except BaseException as error:
            self.end(str(error))
            raise

    def _accuse(self, evidence: Evidence, why: str, forget: Callable[[], None]) -> None:
        """Evidence is kept before anything else happens, and only if it convinces a judge."""
        verdict = judge(evidence, self.verify, self.tables, self.native)
        if not verdict.guilty:
            forget()
            raise PeerCheatedError(f"an audit failed, and nothing of it can be proved to others: {why}")
        error = CaughtError(
            f"the other server did not follow the noise protocol: {verdict.reason}; evidence {evidence.digest.hex()}",
            evidence,
        )
        try:
            self.keep(evidence)
        except Exception as failed:  # the session ends all the same, and the error carries the evidence
            raise error from failed
        forget()
        raise error
