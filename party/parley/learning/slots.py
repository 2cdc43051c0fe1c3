"""When an answer that was computed elsewhere leaves: at a multiple of a time that follows from public facts.

How long one computation takes is measured beforehand, on public inputs of the same shapes. An answer that is done early
waits for the end of its slot, so that for others a record that takes a little longer takes as long as any other. One
that is late leaves at twice the slot, at four times, and so on, and so do those after it: a machine that is busy is
late a handful of times in `CALM` answers, and tells no more; then half of it is tried again. What a machine of its own
fault loses is no record's doing: such an answer leaves at the next multiple of the slot, which stays.
"""

import math
import threading
import time
from dataclasses import dataclass, field

MARGIN = 2.0
"""A machine that is busy with something else takes longer than it did when it was measured."""
SHORTEST_SECONDS = 0.05
CALM = 50
"""After so many answers, whatever they were, slots that had to be longer are half as long."""


@dataclass
class Pace:
    """How much longer than at first every slot is: of a module's process, an extractor's, a cluster's."""

    factor: int = 1
    """Doubled by each answer that was late."""
    answers: int = 0

    def leaves(self, slot: float, took: float) -> float:
        """How many seconds after its question an answer leaves that took so long."""
        self.answers += 1
        if self.answers % CALM == 0:
            self.factor = max(1, self.factor // 2)
        while took > slot * self.factor:
            self.factor *= 2
        return slot * self.factor


@dataclass
class Slots:
    """One for each form of question: its key is public, and so is what was measured for it."""

    stop: threading.Event
    """Whoever waits for a slot to end is woken by it."""
    seconds: dict[object, float] = field(default_factory=dict)
    """As measured; the pace is that of all forms."""
    pace: Pace = field(default_factory=Pace)

    def measured(self, key: object, seconds: float, more: float = 0.0) -> None:
        """How long a public question of this form took; the length of a slot follows, with room for `more` seconds."""
        whole = SHORTEST_SECONDS * math.ceil((MARGIN * seconds + more) / SHORTEST_SECONDS)
        self.seconds[key] = max(SHORTEST_SECONDS, whole)

    def slot(self, key: object) -> float:
        """How long the next one is, if it is not late."""
        return self.seconds[key] * self.pace.factor

    def wait(self, key: object, began: float, lost: bool = False) -> bool:
        """To the end of the slot that began at `began` (time.monotonic), or of a longer one that is not past; False if
        the process is to end meanwhile. `lost`: a machine was lost in between."""
        taken = time.monotonic() - began
        if lost:
            length = self.slot(key)
            return not self.stop.wait(length * max(1, math.ceil(taken / length)) - taken)
        return not self.stop.wait(self.pace.leaves(self.seconds[key], taken) - taken)
