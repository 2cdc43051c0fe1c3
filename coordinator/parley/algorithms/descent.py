"""Gradient methods with one clipped gradient per record: DP-GD, DP-SGD, and RRPSGD.

DP-GD: Yu, Zhang, Chen, Yin and Liu, Algorithm 1 (Wang, Ye and Xu's method in the core paper's tables). DP-SGD: their
Algorithm 2 with batches (Abadi and others), here with momentum, decay and averaging. RRPSGD: Zhang, Zheng, Mou and
Wang, Algorithm 2: the number of rounds is drawn from P(R = k + 1) ∝ 2η_k − β·η_k², with T, their n², from the passes.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan, Setting, register, steps_for
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.schedules import Schedule
from parley.privacy.clipping import GradientClip
from parley.privacy.randomness import Randomness, uniform_below

Floats = NDArray[np.float64]


@register("dp-sgd")
@dataclass(kw_only=True)
class StochasticDescent(Algorithm):
    """θ ← θ − η_t·m_t with m_t = μ·m_{t−1} + (1 − μ)·g̃_t and m_0 = 0, the first release's weight as any other's.

    Begun at the first release instead, that one with its noise weighs 1/(1 − μ) times any other. Divided by 1 − μ^t,
    as Adam's, it still weighs three times at μ = 0.9, which buys nothing: docs/experiments/README.md.
    """

    paper: ClassVar[str] = "Yu, Zhang, Chen, Yin and Liu, Algorithm 2"

    clip_norm: float = 1.0
    batch: int = 500
    passes: float = 4.0
    sampling: str = "wor"
    step: float = 1.0
    decay: str = "linear"
    decay_end: float = 0.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise AlgorithmError(f"momentum is {self.momentum}: give a number from 0 to below 1")
        self.schedule = Schedule(self.step, self.decay, self.decay_end)

    def plan(self, setting: Setting) -> Plan:
        batch = min(self.batch, setting.records)
        steps = steps_for(self.passes, setting.records, batch)
        return Plan(batch, steps, GradientClip(self.clip_norm), self.sampling)

    def ask(self, round_index: int) -> Ask:
        return Ask((self.theta,))

    def advance(self, round_index: int, estimate: Floats) -> None:
        direction = estimate + self.regulariser.gradient(self.theta)
        if self.momentum:
            before = self.state.get("momentum", np.zeros_like(direction))
            direction = self.momentum * before + (1 - self.momentum) * direction
            self.state["momentum"] = direction
        self.theta = self.theta - self.schedule.at(round_index, self.releases) * direction


@register("dp-gd")
@dataclass(kw_only=True)
class FullDescent(StochasticDescent):
    """Every record in every round: one pass per step."""

    paper: ClassVar[str] = "Yu, Zhang, Chen, Yin and Liu, Algorithm 1; Wang, Ye and Xu in the core paper's tables"

    steps_taken: int = 20
    decay: str = "constant"

    def plan(self, setting: Setting) -> Plan:
        return Plan(setting.records, self.steps_taken, GradientClip(self.clip_norm), "wor")


@register("rrpsgd")
@dataclass(kw_only=True)
class RandomRound(StochasticDescent):
    """One record a round, as the paper has it; a larger batch is a variant. The noise is calibrated for all T rounds
    that could be drawn; R of them step the model, and where rounds cost nothing but time no more are made."""

    paper: ClassVar[str] = "Zhang, Zheng, Mou and Wang, Algorithm 2 and Theorem 5"

    smoothness: float = 0.25
    """β"""
    batch: int = 1
    decay: str = "constant"

    def begin(self, plan: Plan, theta: Floats, noise: float, randomness: Randomness) -> None:
        super().begin(plan, theta, noise, randomness)
        steps = np.array([self.schedule.at(k, plan.steps) for k in range(plan.steps)])
        weights = 2 * steps - self.smoothness * steps**2
        if weights.min() <= 0:
            raise AlgorithmError(f"steps must stay below 2/β = {2 / self.smoothness:g}: use a smaller step")
        # An integer below 2^53 is exact, and R is public: it needs to be fair, not secret.
        uniform = uniform_below(randomness, 1 << 53) * 2.0**-53
        drawn = int(np.searchsorted(np.cumsum(weights) / weights.sum(), uniform, side="right"))
        self.state["rounds"] = np.array([float(min(drawn, plan.steps - 1) + 1)])

    def finished(self, round_index: int) -> bool:
        return bool(round_index >= self.state["rounds"][0])

    def advance(self, round_index: int, estimate: Floats) -> None:
        if not self.finished(round_index):
            super().advance(round_index, estimate)
