"""DP-AGD (Lee and Kifer 2018, a baseline of the core paper's section 6), each release a Gaussian of one deviation.

Rounds alternate: a noisy full gradient, then the noisy sums of clipped loss differences at candidate steps along it, of
which the smallest wins; step zero is a candidate. Where zero wins the gradient was too noisy: as theirs, the next
release measures it again at the same point and all measurements there are averaged, so that each costs what it adds.
The budget is a number of releases, spent where the search needs it: one Gaussian event, no filter.

Not as theirs: the choice adds Gaussian noise to all differences, jointly clipped, in place of report-noisy-max; steps
are halved from the largest in place of evenly spaced; and the budget grows by whole measurements, not by a rate.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan, Setting, register
from parley.algorithms.errors import AlgorithmError
from parley.privacy.clipping import GradientClip

Floats = NDArray[np.float64]


@register("dp-agd")
@dataclass(kw_only=True)
class LineSearch(Algorithm):
    paper: ClassVar[str] = "Lee and Kifer 2018, concentrated DP adaptive gradient descent, with Gaussian selection"

    clip_norm: float = 2.0
    rounds: int = 20
    """Of a gradient and a choice of step each."""
    largest_step: float = 2.0
    candidates: int = 6
    """Steps largest_step, half of it, a quarter …"""
    loss_scale: float = 4.0
    """Loss differences are small against gradients: multiplied by this before the clip."""
    caution: float = 1.0
    """A step must promise more than so many deviations of the noise on a loss difference, for the smallest of several
    noisy differences is below 0 where none is; theirs gives step zero a noise of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            not (self.rounds >= 1 and 1 <= self.candidates <= 32 and self.largest_step > 0 and self.loss_scale > 0)
            or self.caution < 0
        ):
            raise AlgorithmError(
                "rounds, candidates (at most 32), largest_step and loss_scale must be above 0, caution at least 0"
            )

    def plan(self, setting: Setting) -> Plan:
        return Plan(setting.records, 2 * self.rounds, GradientClip(self.clip_norm))

    def questions(self) -> dict[str, int]:
        return {"gradient": 1, "losses": 1 + self.candidates}

    def steps_at(self) -> Floats:
        largest = float(self.state.get("largest", np.array([self.largest_step]))[0])
        return np.asarray(largest * 0.5 ** np.arange(self.candidates))

    def ask(self, round_index: int) -> Ask:
        if round_index % 2 == 0:
            return Ask((self.theta,))
        direction = self.state["direction"]
        points = [self.theta - step * direction for step in self.steps_at()]
        return Ask((self.theta, *points), "losses", self.loss_scale)

    def advance(self, round_index: int, estimate: Floats) -> None:
        if round_index % 2 == 0:
            before = self.state.get("measured", np.zeros_like(estimate))
            count = self.state.get("times", np.zeros(1)) + 1
            self.state["measured"], self.state["times"] = before + estimate, count
            self.state["direction"] = self.state["measured"] / count + self.regulariser.gradient(self.theta)
            return
        steps = self.steps_at()
        base = self.regulariser.value(self.theta)
        moved = [self.regulariser.value(self.theta - step * self.state["direction"]) for step in steps]
        gains = estimate / self.loss_scale + np.array(moved) - base
        best = int(np.argmin(gains))
        if gains[best] < -self.caution * float(self.state["noise"][0]) / self.loss_scale:
            self.theta = self.theta - steps[best] * self.state["direction"]
            self.state["measured"], self.state["times"] = np.zeros_like(self.theta), np.zeros(1)
            # One step beyond the winner stays in reach, as in a doubling line search.
            self.state["largest"] = np.array([min(self.largest_step, 2 * float(steps[best]))])
        else:
            self.state["largest"] = np.array([float(steps[0]) / 2])
