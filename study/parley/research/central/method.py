"""Objective perturbation, AMP and pure-ε output perturbation: why they are simulated and never federated.

Their noise is not the servers' Gaussian over a clipped sum, so no `Mechanism` (parley.privacy.mechanism) describes it,
no ledger charges it and no manifest admits it. Here each party solves for itself, with noise of its own that makes its
model (ε, δ)-private for its records; only the models' average, weighted by size, is shown. A record sits with one
party, so the average is (ε, δ)-private too; with one party this is the papers' central method. The run's (ε, δ) follows
from each method's own proof and not from the accountants.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.learning.local import constants
from parley.learning.models import Linear, Model
from parley.learning.records import Records
from parley.privacy.randomness import Randomness
from parley.research.central.noise import Noise
from parley.study.errors import StudyError

Floats = NDArray[np.float64]

Own = tuple[Records, Noise, Randomness]
"""One party's records, noise and other randomness."""
STATEMENT = "the party's own noise: outside the mechanism, its accountants and the ledger; simulations only"


@dataclass(frozen=True)
class Target:
    """What a party's model has to satisfy, and the public facts that it follows from."""

    records: int
    """Of this party."""
    dimension: int
    epsilon: float
    delta: float
    lipschitz: float
    """L of one record's loss"""
    smoothness: float
    """β of one record's loss"""
    reach: float
    """Public bound of a row's norm"""


@dataclass(frozen=True, kw_only=True)
class CentralMethod(ABC):
    """Parameters are dataclass fields, as a study gives them."""

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    pure: ClassVar[bool] = False
    """Whether δ is 0 whatever the study allows."""

    strength: float = 0.0
    """μ of an added μ/2·|θ|²; a method that needs more for its privacy takes more."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength < np.inf:
            raise StudyError(f"[algorithm] strength is {self.strength}: give a finite number of at least 0")

    @abstractmethod
    def solve(self, records: Records, model: Linear, target: Target, noise: Noise, randomness: Randomness) -> Floats:
        """One party's private model."""

    @abstractmethod
    def noise_scale(self, target: Target) -> float:
        """The noise's own parameter, for reports: a deviation, or the scale of a norm."""

    def train(self, parties: Iterable[Own], model: Model, epsilon: float, delta: float, reach: float) -> Floats:
        """The average of the parties' private models, weighted by their public sizes."""
        total: Floats = np.zeros(model.dimension)
        linear, count = linear_model(model), 0
        for records, noise, randomness in parties:
            size = len(records.rows)
            found = self.solve(records, linear, self.target(size, linear, epsilon, delta, reach), noise, randomness)
            total, count = total + size * found, count + size
        return np.asarray(total / count)

    def target(self, size: int, model: Linear, epsilon: float, delta: float, reach: float) -> Target:
        lipschitz, smoothness = constants(model, reach)
        return Target(size, model.dimension, epsilon, 0.0 if self.pure else delta, lipschitz, smoothness, reach)


def linear_model(model: Model) -> Linear:
    if not isinstance(model, Linear):
        raise StudyError("central methods need a convex Lipschitz loss: use a logistic or a huber model")
    return model


def require_rows(records: Records) -> None:
    """The proofs are about single rows."""
    if records.unit_column is not None:
        raise StudyError("central methods protect rows: use a gradient method for units of several records")


REGISTRY: dict[str, type[CentralMethod]] = {}


def central(kind: type[CentralMethod]) -> type[CentralMethod]:
    """Make a method known by its name."""
    REGISTRY[kind.name] = kind
    return kind


def known() -> dict[str, type[CentralMethod]]:
    """Every central method there is a file for."""
    from parley.research.central import minima, objective, pure_output  # noqa: F401  they register themselves

    return REGISTRY


def build_central(body: dict[str, Any]) -> CentralMethod | None:
    """From a study's [algorithm]; None where the name is a federation's algorithm."""
    name = body.get("name")
    kind = known().get(name) if isinstance(name, str) else None
    if kind is None:
        return None
    allowed = {each.name for each in fields(kind)}
    parameters = {key: value for key, value in body.items() if key != "name"}
    for parameter in parameters:
        if parameter not in allowed:
            raise StudyError(f"{name} has no parameter {parameter!r}: use {', '.join(sorted(allowed))}")
    try:
        return kind(**parameters)
    except TypeError as error:
        raise StudyError(f"{name}: {error}") from None
