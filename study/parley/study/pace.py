"""How far a long fit has come, said now and then to whoever waits for it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

EVERY_SECONDS = 10.0
"""A fit that takes less says nothing."""
MINUTE = 60.0

Say = Callable[[str], None]


@dataclass
class Pace:
    """Of one fit; called after each round."""

    say: Say
    fit: str
    rounds: int
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    spoke: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.spoke = self.clock()

    def __call__(self, made: int) -> None:
        now = self.clock()
        if now - self.spoke < EVERY_SECONDS or made >= self.rounds:
            return
        self.spoke = now
        left = (now - self.began) / made * (self.rounds - made)
        self.say(f"{self.fit}: round {made} of {self.rounds}, about {in_words(left)} left of this fit")


def in_words(seconds: float) -> str:
    """As a person says how long to wait."""
    return f"{seconds:.0f} s" if seconds < MINUTE else f"{seconds / MINUTE:.0f} min"
