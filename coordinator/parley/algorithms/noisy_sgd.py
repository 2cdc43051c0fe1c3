"""NSGD (Bassily, Feldman, Talwar and Thakurta, Algorithm 1): noisy SGD with projection and averaging.

Batch m = max(n·sqrt(ε/4T), 1), step η = M/(L·sqrt T) and T of Theorem 3.2; the noise is calibrated by the
accountant instead of line 1's constant, which is larger. Batches are drawn without replacement within a round, where
line 5 draws with replacement: the accountants here cover the former. For a non-smooth loss the parties evaluate the
Moreau envelope's gradient (section 4, ProxGD): the model is then `proximal`, the algorithm is this one.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan, Setting, register
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.schedules import Output
from parley.algorithms.sums import norm
from parley.privacy.clipping import GradientClip

Floats = NDArray[np.float64]


@register("nsgd", "proxgd")
@dataclass(kw_only=True)
class NoisySgd(Algorithm):
    paper: ClassVar[str] = "Bassily, Feldman, Talwar and Thakurta, Algorithm 1 and section 4"

    lipschitz: float = 1.0
    """L, and the clip norm"""
    radius: float = 10.0
    """M, of the ball of admissible models"""
    steps_taken: int | None = None
    """T; without it the theorem's min(n/8, ε²n²/(32·d·log(1/δ))), at most `most_steps`."""
    most_steps: int = 5000
    step: float | None = None
    """η; without it the theorem's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.lipschitz > 0 and self.radius > 0 and self.most_steps >= 1):
            raise AlgorithmError("lipschitz, radius and most_steps must be above 0")
        if self.output == Output():
            self.output = Output("average", 1.0)

    def plan(self, setting: Setting) -> Plan:
        n, d = setting.records, setting.dimension
        rate = setting.epsilon**2 * n**2 / (d * math.log(1 / setting.delta))
        steps = self.steps_taken or max(1, min(self.most_steps, round(min(n / 8, rate / 32))))
        batch = min(n, max(1, round(n * math.sqrt(setting.epsilon / (4 * steps)))))
        self.chosen_step = self.step or self.radius / (self.lipschitz * math.sqrt(steps))
        return Plan(batch, steps, GradientClip(self.lipschitz))

    def ask(self, round_index: int) -> Ask:
        return Ask((self.theta,))

    def advance(self, round_index: int, estimate: Floats) -> None:
        moved = self.theta - self.chosen_step * (estimate + self.regulariser.gradient(self.theta))
        length = norm(moved)
        self.theta = moved * min(1.0, self.radius / max(length, 1e-300))
