"""DDP-SRM and DP-SRM (Wang, Jayaraman, Evans and Gu, Algorithms 2 and 1), and STORM without privacy.

    v_p^t = (1−γ)·v_p^{t−1} + mean of [(1−γ)·clip(∇f_i(θ^t) − ∇f_i(θ^{t−1}), C2) + γ·clip(∇f_i(θ^t), C1)] + u^t

over the batch, with θ^{t+1} = θ^t − η_t·v_p^t. Remark 4.3's sensitivity, 2((1−γ)C2 + γC1), is the mechanism's; the
regulariser's exact gradient is added to v_p^t where it steps. T + 1 estimators are released, and the
last one steps too.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan, Setting, register, steps_for
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.schedules import Schedule
from parley.algorithms.sums import norm
from parley.privacy.clipping import MomentumClip

Floats = NDArray[np.float64]


@register("ddp-srm", "dp-srm")
@dataclass(kw_only=True)
class RecursiveMomentum(Algorithm):
    """DDP-SRM over any number of parties; with one party it is DP-SRM."""

    paper: ClassVar[str] = "Wang, Jayaraman, Evans and Gu, Algorithm 2 (Algorithm 1 with one party)"

    gradient_norm: float = 1.0
    """C1"""
    difference_norm: float = 0.01
    """C2"""
    gamma: float = 0.01
    batch: int = 100
    initial_batch: int | None = None
    """b0"""
    passes: float = 5.0
    sampling: str = "wor"
    step: float = 0.2
    decay: str = "linear"
    decay_end: float = 0.0
    zeta: float | None = None
    """With `smoothness`: the paper's adaptive step min(ζ/(L|v|), 1/(2L)) in place of the schedule."""
    smoothness: float | None = None
    """L"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.zeta is None) != (self.smoothness is None):
            raise AlgorithmError("the adaptive step needs both zeta and smoothness, or neither")
        self.schedule = Schedule(self.step, self.decay, self.decay_end)

    def plan(self, setting: Setting) -> Plan:
        initial = self.initial_batch or self.batch
        clip = MomentumClip(self.gradient_norm, self.difference_norm, self.gamma)
        steps = steps_for(self.passes, setting.records, self.batch, clip.evaluations, initial)
        return Plan(self.batch, steps, clip, self.sampling, self.initial_batch)

    def ask(self, round_index: int) -> Ask:
        if round_index == 0 or self.gamma == 1:  # a difference of weight 0 is none
            return Ask((self.theta,))
        return Ask((self.theta, self.state["previous"]))

    def advance(self, round_index: int, estimate: Floats) -> None:
        if round_index:
            estimate = estimate + (1 - self.gamma) * self.state["estimator"]
        self.state["estimator"] = estimate
        self.state["previous"] = self.theta
        direction = estimate + self.regulariser.gradient(self.theta)
        self.theta = self.theta - self.step_size(round_index, direction) * direction

    def step_size(self, round_index: int, direction: Floats) -> float:
        """η_t: Algorithm 1, line 5, or the tuned schedule."""
        if self.zeta is None or self.smoothness is None:
            return self.schedule.at(round_index, self.releases)
        length = norm(direction)
        return min(self.zeta / (self.smoothness * max(length, 1e-300)), 1 / (2 * self.smoothness))


@register("ddp-srm-theory")
@dataclass(kw_only=True)
class TheoreticalRecursiveMomentum(RecursiveMomentum):
    """Theorems 4.4 and 5.2: T, ζ, b0, b and γ from n, d, ε, δ, G, L and D_F, all absolute constants `constant`."""

    paper: ClassVar[str] = "Wang, Jayaraman, Evans and Gu, Theorems 4.4 and 5.2"

    lipschitz: float = 1.0
    """G, and C1"""
    gap: float = 0.6931471805599453
    """D_F = F(θ^0) − F(θ*), at most log 2 for a logistic loss that starts at zero"""
    constant: float = 1.0
    smoothness: float | None = 0.25
    zeta: float | None = 1.0

    def plan(self, setting: Setting) -> Plan:
        smooth = self.smoothness or 0.25
        n, log_delta = setting.records, math.log(1 / setting.delta)
        rate = n * setting.epsilon
        self.zeta = (
            self.constant
            * math.sqrt(self.lipschitz)
            * (smooth * self.gap * setting.dimension * log_delta) ** 0.25
            / math.sqrt(rate)
        )
        steps = self.constant * rate * math.sqrt(smooth * self.gap)
        steps = max(1, round(steps / (self.lipschitz * math.sqrt(setting.dimension * log_delta))))
        self.batch = min(n, max(1, round(self.constant * self.lipschitz**2 / self.zeta)))
        initial = round(self.constant * self.lipschitz**2 / (self.zeta**2 * smooth * self.gap))
        self.initial_batch = min(n, max(1, initial))
        self.gamma = min(1.0, self.constant * self.zeta)
        clip = MomentumClip(self.lipschitz, self.zeta, self.gamma)
        return Plan(self.batch, steps, clip, self.sampling, self.initial_batch)


@register("storm")
@dataclass(kw_only=True)
class Storm(RecursiveMomentum):
    """STORM (Cutkosky and Orabona) with a fixed momentum γ: no clip that binds, no noise. The non-private baseline."""

    paper: ClassVar[str] = "Cutkosky and Orabona, STORM, as used by Wang, Jayaraman, Evans and Gu, section 6"

    gamma: float = 0.1

    def plan(self, setting: Setting) -> Plan:
        plan = super().plan(setting)
        # Residuals of the built-in classifiers are at most sqrt 2, so that these norms never clip.
        reach = 2 * setting.feature_bound
        clip = MomentumClip(reach, 2 * reach, self.gamma)
        return Plan(plan.batch, plan.steps, clip, plan.sampling, plan.initial_batch, private=False)
