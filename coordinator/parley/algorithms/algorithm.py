"""The one interface of every algorithm: what it plans, what it asks each round, how a noised answer steps the model.

An algorithm knows public facts and released values, never data: `plan` fixes batch, rounds, sampling and clip from a
`Setting`, from which the run's mechanism (parley.privacy.mechanism) is built and its noise calibrated; `ask` names the
points of a round's query; `tell` takes the noised mean. Adding one is one file in `parley.algorithms`: a dataclass
derived from `Algorithm` under `@register`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.errors import AlgorithmError
from parley.algorithms.regularisers import Regulariser
from parley.algorithms.schedules import Output
from parley.federation.question import LocalFit
from parley.privacy.clipping import Clip, MomentumClip
from parley.privacy.randomness import Randomness, uniform_below

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The public facts that a plan may depend on, and nothing else may."""

    records: int
    """Units of privacy, over all parties."""
    dimension: int
    epsilon: float
    delta: float
    feature_bound: float = 1.0
    """A public bound on the norm of a feature row."""
    model: str = "logistic"
    columns: int = 0
    """Of a feature row, the intercept included."""
    intercept: bool = False
    """Whether the last column is the constant 1."""
    normalised: bool = False
    """Whether every row has one length, because a public transform makes it so."""
    target_bound: float = 1.0
    """A public bound on a target that is a number, as a model sees it,"""
    largest_residual: float = math.inf
    """and on what a loss's derivative in the score may be."""


@dataclass(frozen=True)
class Plan:
    """What privacy depends on."""

    batch: int
    """Expected, over all parties."""
    steps: int
    clip: Clip
    sampling: str = "wor"
    initial_batch: int | None = None
    private: bool = True
    """False for a non-private baseline, which research may run and a federation never does."""

    @property
    def releases(self) -> int:
        return self.steps + self.clip.extra_releases

    def passes(self, records: int, releases: int | None = None) -> float:
        """Gradient evaluations over n, of the first `releases`."""
        made = self.releases if releases is None else releases
        if isinstance(self.clip, MomentumClip):
            later = self.clip.evaluations * self.batch * (made - 1)
            return ((self.initial_batch or self.batch) + later) / records
        return self.batch * made / records


@dataclass(frozen=True)
class Ask:
    """One round's query: gradients at one or two points, loss differences, norms, feature means or a solution."""

    points: tuple[Floats, ...]
    kind: str = "gradient"
    scale: float = 1.0
    """What gradients, rows or loss differences are multiplied by before the clip; for `norms`, the histogram's top."""
    local: LocalFit | None = None


@dataclass(kw_only=True)
class Algorithm(ABC):
    """Parameters are dataclass fields, as a study gives them; the state of a run is in `theta` and `state`."""

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""

    regulariser: Regulariser = field(default_factory=Regulariser)
    output: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        self.state: dict[str, Floats] = {}

    @abstractmethod
    def plan(self, setting: Setting) -> Plan:
        """Batch, rounds, sampling and clip. Called once, before `begin`."""

    @abstractmethod
    def ask(self, round_index: int) -> Ask:
        """The points of this round."""

    @abstractmethod
    def advance(self, round_index: int, estimate: Floats) -> None:
        """Step `self.theta` by the noised mean over the expected batch."""

    def questions(self) -> dict[str, int]:
        """Every kind of question of the planned run, and at how many points at most."""
        return {"gradient": 1}

    def recorded(self) -> dict[str, Any]:
        """Parameters that a manifest has to say, whatever the study does: what would change a run unseen."""
        return {}

    def finished(self, round_index: int) -> bool:
        """Whether no release from this round on changes the result: a simulation need not make it."""
        return False

    def begin(self, plan: Plan, theta: Floats, noise: float, randomness: Randomness) -> None:
        """Start from θ_0. `noise` is the deviation of a coordinate of the estimates after the first, which is public.

        `randomness` chooses a random output, which is no secret.
        """
        self.steps = plan.steps
        self.releases = plan.releases
        self.chosen = uniform_below(randomness, max(1, plan.steps))
        self.state = {"theta": theta.copy(), "kept": np.zeros_like(theta), "count": np.zeros(1)}
        self.state["noise"] = np.array([noise])

    @property
    def theta(self) -> Floats:
        return self.state["theta"]

    @theta.setter
    def theta(self, value: Floats) -> None:
        self.state["theta"] = value

    def tell(self, round_index: int, estimate: Floats) -> None:
        """Take one round's noised mean, and keep what the output rule needs."""
        if not np.isfinite(estimate).all():
            raise AlgorithmError(f"round {round_index}: the estimate is not finite, the run has diverged")
        self._keep(round_index)
        self.advance(round_index, estimate)
        if not np.isfinite(self.theta).all():
            raise AlgorithmError(f"the model is no longer finite in round {round_index}: use a smaller step")
        if round_index == self.releases - 1:
            self._keep(self.releases)

    def _keep(self, round_index: int) -> None:
        """Average or pick among θ_0 … θ_T as released values make them."""
        if self.output.rule == "average" and round_index > self.releases * (1 - self.output.tail):
            self.state["kept"] = self.state["kept"] + self.theta
            self.state["count"] = self.state["count"] + 1
        elif self.output.rule == "random" and round_index == self.chosen:
            self.state["kept"] = self.theta.copy()
            self.state["count"] = np.ones(1)

    def result(self) -> Floats:
        """The model that the run publishes."""
        if self.output.rule == "last" or not self.state["count"][0]:
            return self.theta.copy()
        return np.asarray(self.state["kept"] / self.state["count"][0])

    @property
    def remark(self) -> str:
        """What people should know of the result beside its figures; from released values."""
        return ""

    def checkpoint(self) -> dict[str, Floats]:
        """Everything a restart needs; `restore` is its inverse."""
        return {name: value.copy() for name, value in self.state.items()} | {"chosen": np.array([float(self.chosen)])}

    def restore(self, plan: Plan, state: dict[str, Floats]) -> None:
        self.steps, self.releases = plan.steps, plan.releases
        self.chosen = int(state["chosen"][0])
        self.state = {name: value.copy() for name, value in state.items() if name != "chosen"}


REGISTRY: dict[str, type[Algorithm]] = {}
Kind = TypeVar("Kind", bound=type[Algorithm])


def register(*names: str) -> Any:
    """Make an algorithm known by its names; the first is the one reported."""

    def enter(kind: Kind) -> Kind:
        kind.name = names[0]
        for name in names:
            if name in REGISTRY:
                raise AlgorithmError(f"two algorithms are called {name}: rename one")
            REGISTRY[name] = kind
        return kind

    return enter


def steps_for(passes: float, records: int, batch: int, evaluations: int = 1, initial: int = 0) -> int:
    """Rounds that use up `passes` data passes, at least one."""
    if not (math.isfinite(passes) and passes > 0 and batch >= 1):
        raise AlgorithmError(f"passes is {passes} and batch {batch}: give numbers above 0")
    return max(1, round((passes * records - initial) / (batch * evaluations)))
