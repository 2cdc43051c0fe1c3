"""The accountant `paper`: Lemma 3.7 and Lemma 3.9 of Wang, Jayaraman, Evans and Gu, with their conditions checked.

Lemma 3.7: (α, 3.5·τ²·α/σ'²)-RDP for a batch drawn without replacement at rate τ, given σ'² ≥ 0.7 and
α ≤ 2σ'²·log(1/(τ·α·(1+σ'²)))/3 + 1, with σ' the noise over the replace-one sensitivity. The logarithm is read with the
whole product in its denominator (the other reading is false by up to 381 times), and α ≥ 2 is required (the lemma is
false between 1 and 1.64). Lemma 3.9: ε = ρ + log(1/δ)/(α−1). Light: no third-party import.
"""

import math
from dataclasses import dataclass

from parley.privacy.accountants import Reading, require_delta, require_epsilon
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation

SMALLEST_VARIANCE = 0.7
SMALLEST_ORDER = 2.0


@dataclass(frozen=True)
class PaperReading:
    """The lemma's figure at the order that minimises it, and which of its conditions fail there."""

    epsilon: float
    order: float
    unmet: tuple[str, ...]
    within_conditions: float | None
    """The smallest ε over the orders at which every condition holds; None where there is no such order."""


def largest_order(rate: float, variance: float) -> float:
    """The largest α with α ≤ 2σ'²·log(1/(τ·α·(1+σ'²)))/3 + 1; below 1 there is none."""

    def excess(order: float) -> float:
        return order - 1 - 2 * variance / 3 * -math.log(rate * order * (1 + variance))

    low, high = 1e-300, 1e12
    for _ in range(400):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return low


@dataclass(frozen=True)
class PaperAccountant:
    """The paper's own account, for comparison: on its own settings its conditions fail."""

    name: str = "paper"
    ignore_conditions: bool = False
    """Give the lemma's figure all the same: what the paper's tables must have been made with, and no guarantee."""

    @property
    def certifies(self) -> bool:
        """Only while the lemma's conditions are insisted on."""
        return not self.ignore_conditions

    def read(self, event: Event, delta: float) -> PaperReading:
        """The figure with its conditions reported; `epsilon` is the one that refuses."""
        require_delta(delta)
        kinds = {release.sampler.kind for release in event.releases}
        if event.relation is not NeighbouringRelation.REPLACE_ONE or kinds - {"wor"}:
            raise InvalidParameterError("accountant paper covers fixed-size batches under replace-one only: use pld")
        slope = 0.0
        highest = math.inf
        unmet: list[str] = []
        for release in event.releases:
            rate, variance = release.sampler.rate, release.noise_multiplier**2
            if rate == 1:
                slope += release.count / (2 * variance)
                continue
            slope += release.count * 3.5 * rate * rate / variance
            highest = min(highest, largest_order(rate, variance))
            if variance < SMALLEST_VARIANCE:
                unmet.append(f"sigma'^2 = {variance:.3g} is below {SMALLEST_VARIANCE}")
        needed = math.log(1 / delta)
        order = max(SMALLEST_ORDER, 1 + math.sqrt(needed / slope)) if slope else math.inf

        def figure(at: float) -> float:
            return slope * at + needed / (at - 1) if slope else 0.0

        within = figure(min(order, highest)) if not unmet and highest >= SMALLEST_ORDER else None
        if order > highest:
            unmet.append(f"alpha = {order:.4g} exceeds {highest:.4g}, the largest order that Lemma 3.7 admits here")
        return PaperReading(figure(order), order, tuple(dict.fromkeys(unmet)), within)

    def epsilon(self, event: Event, delta: float) -> Reading:
        """The lemma's ε, or a refusal that names the conditions that fail."""
        found = self.read(event, delta)
        if found.unmet and not self.ignore_conditions:
            raise ConditionsUnmetError(_refusal(found), found.unmet)
        return Reading(found.epsilon, delta, self.name, found.order)

    def smallest_certifiable(self, event: Event, delta: float) -> float:
        """The smallest ε that the lemma certifies for this sampling and T at any noise, within its conditions."""
        noises = (10 ** (step / 100) for step in range(-20, 300))
        figures = (self.read(event.with_noise(noise), delta).within_conditions for noise in noises)
        return min((figure for figure in figures if figure is not None), default=math.inf)

    def delta(self, event: Event, epsilon: float) -> float:
        """The lemma's δ at ε, or a refusal."""
        require_epsilon(epsilon)
        low, high = 1e-300, 1 - 1e-12
        if self.read(event, high).epsilon > epsilon:
            return 1.0
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.read(event, middle).epsilon > epsilon else (low, middle)
        self.epsilon(event, high)
        return high


def _refusal(found: PaperReading) -> str:
    inside = "certifies nothing" if found.within_conditions is None else f"certifies {found.within_conditions:.3g}"
    return (
        f"Lemma 3.7 does not hold here ({'; '.join(found.unmet)}): within its conditions it {inside}; "
        "use accountant pld"
    )
