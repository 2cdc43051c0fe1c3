"""`auto`: the default recipe, by rule from public facts and released values; no data set is known by name.

DP-SGD (Yu, Zhang, Chen, Yin and Liu, Algorithm 2) with large Poisson batches, momentum and an averaged tail, and two
rules in place of what is otherwise tuned on private data:

1. The first release is a noised histogram of gradient norms at θ_0, a three-hundredth of the budget. The clip norm
   is a fixed multiple of its median; the mechanism's clip stays, parties scale gradients to it.
2. The step follows DoG (Ivgi, Hinder and Carmon 2023): η_t ∝ r_t / sqrt(T·E|g̃|²), r_t the largest |θ_i − θ_0| so far,
   with a linear decay, a running mean of |g̃|², and r_t less what the noise alone would have moved. So what noise moves
   the model stays a fixed fraction of how far the signal has moved it, whatever the scale of the features.

Both are functions of released values, so the run's account is that of its releases and nothing else.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coordinator.algorithm import Algorithm, Ask, Plan, Setting, register
from coordinator.schedules import Output
from privacy.clipping import GradientClip

Floats = NDArray[np.float64]

STEPS = 300
SHARE = 16
"""A batch is one record in so many."""
SMALLEST_BATCH = 64
TOP = 4.0
"""The histogram begins at so many times the public bound of a feature row."""
HALF_POWER = math.sqrt(2)
CLEAR = 3.0
"""Standard deviations of noise above which a bucket of the histogram counts."""
LARGEST_START = 2.5
MEMORY = 0.1
"""Weight of the newest gradient in the running square of gradient norms."""


@register("auto")
@dataclass(kw_only=True)
class Auto(Algorithm):
    paper: ClassVar[str] = "Yu, Zhang, Chen, Yin and Liu, Algorithm 2, with DoG steps (Ivgi, Hinder and Carmon)"

    clip_factor: float = 1.2
    """The clip norm over the median gradient norm at the start."""
    step_factor: float = 1.5
    """About what noise may move the model, as a fraction of how far the signal has."""
    momentum: float = 0.5
    score_noise: float = 0.8
    """What noise may move a typical score at the start, before any distance is known."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output == Output():
            self.output = Output("average", 0.25)

    def plan(self, setting: Setting) -> Plan:
        self.top = TOP * setting.feature_bound
        # A residual of one half on a row of half the public bound.
        self.fallback = setting.feature_bound / 4
        batch = min(setting.records, max(SMALLEST_BATCH, setting.records // SHARE))
        return Plan(batch, STEPS + 1, GradientClip(1.0), "poisson")

    def ask(self, round_index: int) -> Ask:
        if round_index == 0:
            return Ask((self.theta,), "norms", self.top)
        return Ask((self.theta,), "gradient", 1 / self.clip_norm)

    @property
    def clip_norm(self) -> float:
        return float(self.state["clip"][0])

    def advance(self, round_index: int, estimate: Floats) -> None:
        if round_index == 0:
            median = self.median_norm(estimate)
            self.state["clip"] = np.array([self.clip_factor * median])
            self.state["origin"] = self.theta
            self.state["square"] = np.zeros(1)
            # Noise of norm c·r moves the score of a row |x| by c·r·|x|/sqrt(d), and |x| is about twice the median.
            start = self.score_noise * math.sqrt(len(self.theta)) / (2 * self.step_factor)
            self.state["distance"] = np.array([min(start, LARGEST_START) / median])
            self.state["drift"] = np.zeros(1)
            self.state["momentum"] = np.zeros_like(self.theta)
            return
        gradient = estimate * self.clip_norm + self.regulariser.gradient(self.theta)
        taken = (round_index - 1) / STEPS
        weight = max(1 / round_index, MEMORY)
        self.state["square"] = (1 - weight) * self.state["square"] + weight * (gradient @ gradient)
        self.state["momentum"] = self.momentum * self.state["momentum"] + (1 - self.momentum) * gradient
        length = math.sqrt(float(self.state["square"][0]) * STEPS)
        step = self.step_factor * float(self.state["distance"][0]) / max(length, 1e-300) * 2 * (1 - taken)
        self.theta = self.theta - step * self.state["momentum"]
        # What the noise alone would have moved the model by now, on average: it must not count as distance.
        noise = float(self.state["noise"][0]) * self.clip_norm
        self.state["drift"] = self.state["drift"] + step**2 * noise**2 * len(self.theta)
        moved = self.theta - self.state["origin"]
        reached = math.sqrt(max(0.0, float(moved @ moved - self.state["drift"][0])))
        self.state["distance"] = np.maximum(self.state["distance"], reached)

    def median_norm(self, histogram: Floats) -> float:
        """The median of the noised histogram; counts that noise explains are none, and where all are, public facts."""
        threshold = CLEAR * float(self.state["noise"][0])
        counts = np.where(histogram > threshold, histogram, 0.0)
        if not counts.sum() > 0:
            return self.fallback
        passed = np.cumsum(counts) / counts.sum()
        bucket = int(np.argmax(passed >= 0.5))
        inside = (0.5 - (passed[bucket - 1] if bucket else 0.0)) * counts.sum() / max(counts[bucket], 1e-300)
        return float(self.top * HALF_POWER ** -(bucket + min(1.0, max(0.0, inside))))
