"""One run in memory, between its state on disk and those who wait for it. Lives on the event loop alone."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from parley.coordinator.questions import Question
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.v1 import common_pb2

BOTH = 2


@dataclass
class Run:
    """What parties are told of, and what is known of them."""

    manifest: Manifest
    state: State
    outcome: str = ""
    joined: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    question: Question | None = None
    admissions: list[common_pb2.SignedAdmission] = field(default_factory=list)
    """Both aggregators' words that they take part: parties charge nothing without them."""
    ends: list[common_pb2.SignedEnd] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)
    """When a party last asked for work, by the monotonic clock."""
    uploaded: dict[str, int] = field(default_factory=dict)
    """The round that a party says is acknowledged: server A has it, and B has its half or A will bring it."""
    absent: set[str] = field(default_factory=set)
    """Parties that missed a round and have not asked for work since."""
    lost: set[str] = field(default_factory=set)
    """Parties whose contribution an aggregator does not have although they had uploaded it: asked again."""
    decisions: Counter[str] = field(default_factory=Counter)
    """How often a party has said whether it takes part, to this process."""
    bytes_down: int = 0
    """To all parties, in this round."""
    asked: float = 0.0
    """When this round's question was published, by the monotonic clock."""
    admitted: set[str] = field(default_factory=set)
    """Aggregators that have told this process that they take part, by their URIs."""
    gathering_until: float = 0.0
    """Until when this process waits for answers, in seconds since the epoch; 0 while it does not."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def index(self) -> int:
        return self.question.round.index if self.question else -1

    @property
    def open_seconds(self) -> float:
        return time.monotonic() - self.asked

    async def tell(self) -> None:
        """Wake whoever waits for this run."""
        async with self.changed:
            self.changed.notify_all()

    async def publish(self, question: Question | None) -> None:
        """The round's question, durable already."""
        async with self.changed:
            self.question = question
            self.lost.clear()
            self.bytes_down = 0
            self.asked = time.monotonic()
            self.changed.notify_all()

    async def move(self, state: State, outcome: str = "") -> None:
        async with self.changed:
            self.state, self.outcome = state, outcome
            self.changed.notify_all()

    def expected(self) -> Sequence[str]:
        """Whom the aggregators should wait for: those who joined and are not known to be away."""
        present = sorted(self.joined - self.absent)
        return present if len(present) >= self.manifest.minimum_parties else sorted(self.joined)

    def note_asked(self, party: str, after_round: int) -> None:
        self.seen[party] = time.monotonic()
        self.uploaded[party] = after_round
        self.absent.discard(party)

    def note_missing(self, place: int, missing: Sequence[str]) -> bool:
        """Whether somebody who had uploaded has to be asked again."""
        fresh = {party for party in missing if self.uploaded.get(party, -1) == self.index >= 0} - self.lost
        self.lost |= fresh
        return bool(fresh)

    def note_opened(self, contributors: Sequence[str]) -> None:
        self.absent |= self.joined - set(contributors)

    def has_work_for(self, party: str, after_round: int) -> bool:
        if self.state is not State.running or self.question is None or party not in self.joined:
            return False
        return after_round < self.index or party in self.lost
