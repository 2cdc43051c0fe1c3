"""DPAGD: DP-GD, DP-RMSProp and DP-Adam as one family (Zhou, Chen, Hong, Wu and Banerjee, Algorithm 1 and table 1).

    m_t = φ_t(g̃_1 … g̃_t),  v_t = min(ψ_t(g̃_1 … g̃_t), λ),  w_{t+1} = w_t − η_t·m_t / (sqrt(v_t) + ν)

ψ is an exponential average of squared noisy gradients, which the noise inflates: λ caps it coordinate by coordinate.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import register
from parley.algorithms.descent import StochasticDescent
from parley.algorithms.errors import AlgorithmError

Floats = NDArray[np.float64]


@register("dp-rmsprop")
@dataclass(kw_only=True)
class RootMeanSquare(StochasticDescent):
    """φ_t = g̃_t; ψ_t = (1 − β2) Σ β2^(t−i) g̃_i²."""

    paper: ClassVar[str] = "Zhou, Chen, Hong, Wu and Banerjee, Algorithm 1 with table 1's DP RMSProp"

    second_decay: float = 0.999
    """β2"""
    cap: float = 1.0
    """λ"""
    floor: float = 1e-3
    """ν"""
    decay: str = "constant"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.second_decay < 1 and self.cap > 0 and self.floor >= 0):
            raise AlgorithmError("second_decay must lie in [0, 1), cap above 0 and floor at 0 or above")

    def first(self, gradient: Floats) -> Floats:
        """φ_t"""
        return gradient

    def advance(self, round_index: int, estimate: Floats) -> None:
        gradient = estimate + self.regulariser.gradient(self.theta)
        before = self.state.get("second", np.zeros_like(gradient))
        second = self.second_decay * before + (1 - self.second_decay) * gradient**2
        self.state["second"] = second
        step = self.schedule.at(round_index, self.releases)
        self.theta = self.theta - step * self.first(gradient) / (np.sqrt(np.minimum(second, self.cap)) + self.floor)


@register("dp-adam")
@dataclass(kw_only=True)
class Adam(RootMeanSquare):
    """φ_t = (1 − β1) Σ β1^(t−i) g̃_i as well."""

    paper: ClassVar[str] = "Zhou, Chen, Hong, Wu and Banerjee, Algorithm 1 with table 1's DP Adam"

    first_decay: float = 0.9
    """β1"""

    def first(self, gradient: Floats) -> Floats:
        before = self.state.get("first", np.zeros_like(gradient))
        self.state["first"] = self.first_decay * before + (1 - self.first_decay) * gradient
        return self.state["first"]
