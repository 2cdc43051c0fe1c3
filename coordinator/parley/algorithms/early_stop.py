"""When a run may stop before its last round, decided on its released iterates and a PUBLIC set: post-processing.

The model is the best of those that were evaluated. An evaluation of a model that has not moved, as in rounds that only
measure, counts neither for nor against it; one whose loss is infinite counts against it each time.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from parley.federation.start_and_stop import StopEarly

Floats = NDArray[np.float64]
BEST, COUNTS = "stop early: best", "stop early: counts"
"""Names in a checkpoint, which no algorithm's state has."""
NOTHING = np.zeros(0)
MOST_EVALUATIONS = 50
"""Of a run, on the public set, besides the last."""


def evaluated_at(round_index: int, releases: int) -> bool:
    """Whether the model after this round is tried on the public set."""
    return round_index + 1 == releases or round_index % max(1, releases // MOST_EVALUATIONS) == 0


class Stopper:
    """Told of every evaluation, in order; `checkpoint` and `restore` carry it over a restart."""

    def __init__(self, rule: StopEarly) -> None:
        self.rule = rule
        self.best: Floats | None = None
        """The model of the lowest loss."""
        self.best_round = -1
        self.loss = self._last = math.inf
        self.waited = 0
        """Evaluations since then."""

    def tell(self, round_index: int, theta: Floats, loss: float) -> bool:
        """Whether to stop. A loss that is no number is no better than any."""
        loss = math.inf if math.isnan(loss) else loss
        if loss == self._last and self.best is not None and math.isfinite(loss):
            return False
        self._last = loss
        if self.best is None or loss < self.loss - self.rule.least:
            self.best, self.best_round, self.loss, self.waited = theta.copy(), round_index, loss, 0
            return False
        self.waited += 1
        return self.waited >= self.rule.patience

    def checkpoint(self) -> dict[str, Floats]:
        """Empty before the first evaluation."""
        if self.best is None:
            return {}
        counts = np.array([float(self.best_round), self.loss, self._last, float(self.waited)])
        return {BEST: self.best.copy(), COUNTS: counts}

    def restore(self, state: Mapping[str, Floats]) -> None:
        """From a checkpoint, which may hold an algorithm's state as well."""
        if BEST not in state:
            return
        self.best = state[BEST].copy()
        best_round, self.loss, self._last, waited = (float(each) for each in state[COUNTS])
        self.best_round, self.waited = int(best_round), int(waited)


def best_round(rule: StopEarly, losses: Iterable[tuple[int, float]]) -> int | None:
    """Which round's model a run had chosen after these evaluations, (round, loss) in order; None before the first."""
    stopper = Stopper(rule)
    for round_index, loss in losses:
        stopper.tell(round_index, NOTHING, loss)
    return stopper.best_round if stopper.best is not None else None
