"""Output perturbation and Out-SGD: parties fit their own models, the servers' noise protects the one average.

Zhang, Zheng, Mou and Wang, Algorithm 1 with Lemmas 2 and 3; Out-SGD is Wu and others' permuted SGD, as compared by Yu
and others. An un-noised iterate never leaves a party, so with several parties this is the average of local solutions,
weighted by size, and with one party the papers' central method. The noise is Gaussian from the accountant; the pure
ε variants need noise of another law, which the servers do not sample.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Algorithm, Ask, Plan, Setting, register
from parley.algorithms.errors import AlgorithmError
from parley.federation.question import LocalFit
from parley.privacy.clipping import GradientClip

Floats = NDArray[np.float64]


@register("output-perturbation")
@dataclass(kw_only=True)
class OutputPerturbation(Algorithm):
    paper: ClassVar[str] = "Zhang, Zheng, Mou and Wang, Algorithm 1, Lemmas 2 and 3"
    method: ClassVar[str] = "descent"

    iterations: int = 100
    """T, or passes for Out-SGD"""
    step: float | None = None
    """η; without it the largest that the lemma admits."""
    strength: float = 0.0
    """μ of an added penalty: 0 is the convex case"""
    loss_lipschitz: float = 1.0
    """Bound on the loss's derivative in the score: 1 for logistic, the threshold for Huber"""
    loss_smoothness: float = 0.25
    """Bound on its second derivative: 1/4 for logistic, 1 for Huber"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.iterations >= 1 and self.strength >= 0 and self.loss_lipschitz > 0 and self.loss_smoothness > 0):
            raise AlgorithmError("iterations and the loss's constants must be above 0, strength at least 0")
        if self.regulariser.kind != "none":
            raise AlgorithmError("a local fit has its own penalty, called strength: leave the regulariser out")

    def plan(self, setting: Setting) -> Plan:
        lipschitz = self.loss_lipschitz * setting.feature_bound
        smooth = self.loss_smoothness * setting.feature_bound**2
        if self.strength:
            beta = smooth + self.strength
            step = self.step or 1 / (beta + self.strength)
            moved = 5 * 2 * lipschitz * (self.strength + beta) / (self.strength * beta)
        else:
            step = self.step or 1 / smooth
            moved = 3 * lipschitz * self.iterations * step
        return self._plan(setting, step, moved)

    def _plan(self, setting: Setting, step: float, moved: float) -> Plan:
        """`moved`: the sensitivity times the records that it is divided by, the same for every party."""
        self.work = LocalFit(self.method, self.iterations, step, self.strength, setting.feature_bound)
        return Plan(setting.records, 1, GradientClip(moved / 2 * (1 + MARGIN)))

    def questions(self) -> dict[str, int]:
        return {"solution": 1}

    def ask(self, round_index: int) -> Ask:
        return Ask((self.theta,), "solution", local=self.work)

    def advance(self, round_index: int, estimate: Floats) -> None:
        self.theta = np.asarray(estimate)


MARGIN = 2.0**-7
"""Above what the parties ask for rounding (parley.learning.local)."""


@register("out-sgd")
@dataclass(kw_only=True)
class OutSgd(OutputPerturbation):
    """One or a few passes in a fixed random order; for one party, as the sensitivity does not shrink with n."""

    paper: ClassVar[str] = "Wu and others 2017, as compared by Yu, Zhang, Chen, Yin and Liu, section 4"
    method: ClassVar[str] = "permuted-sgd"

    iterations: int = 1

    def plan(self, setting: Setting) -> Plan:
        smooth = self.loss_smoothness * setting.feature_bound**2
        step = self.step or min(2 / smooth, setting.records**-0.5)
        moved = 2 * self.iterations * self.loss_lipschitz * setting.feature_bound * step * setting.records
        return self._plan(setting, step, moved)
