"""Step sizes by round, and which iterate is the result: choices from released values."""

import math
from dataclasses import dataclass

from parley.algorithms.errors import AlgorithmError

DECAYS = ("constant", "linear", "cosine", "inverse-sqrt", "inverse", "staircase")
OUTPUTS = ("last", "average", "random")


@dataclass(frozen=True)
class Schedule:
    """The step at round t of T: `start` times a decay."""

    start: float
    decay: str = "constant"
    end: float = 0.0
    """What a linear or cosine decay ends at, as a fraction of `start`."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and self.start > 0):
            raise AlgorithmError(f"the step is {self.start}: give a finite number above 0")
        if self.decay not in DECAYS:
            raise AlgorithmError(f"decay is {self.decay!r}: use one of {', '.join(DECAYS)}")
        if not 0 <= self.end <= 1:
            raise AlgorithmError(f"the decay's end is {self.end}: give a fraction from 0 to 1")

    def at(self, step: int, steps: int) -> float:
        """η_t for t = 0 … T − 1."""
        if self.decay == "linear":
            return self.start * (1 - (1 - self.end) * step / steps)
        if self.decay == "cosine":
            return self.start * (self.end + (1 - self.end) * (1 + math.cos(math.pi * step / steps)) / 2)
        if self.decay == "inverse-sqrt":
            return self.start / math.sqrt(step + 1)
        if self.decay == "inverse":
            return self.start / (step + 1)
        if self.decay == "staircase":
            # Zhou, Chen, Hong, Wu and Banerjee: a tenth after every 30 of 100 epochs, here of the run's rounds.
            return float(self.start * 0.1 ** (10 * step // (3 * steps)))
        return self.start


@dataclass(frozen=True)
class Output:
    """Which iterate is the result. All iterates follow from released values, so all are equally private."""

    rule: str = "last"
    tail: float = 0.25
    """The fraction of the last rounds that `average` takes."""

    def __post_init__(self) -> None:
        if self.rule not in OUTPUTS:
            raise AlgorithmError(f"output is {self.rule!r}: use one of {', '.join(OUTPUTS)}")
        if not 0 < self.tail <= 1:
            raise AlgorithmError(f"the averaged tail is {self.tail}: give a fraction above 0 and at most 1")
