"""Noise of the networks' cells: the claim with the sampler's certificate inside is the wanted (ε, δ).

At ε of 8 and 10 over tens of millions of samples the certificate takes up to 5 % of δ, where nodes of a federation
admit 1 % (`parley.privacy.finite_precision.LARGEST_SHARE`): the claim holds as said, and no federation would run it.
"""

import math
from dataclasses import dataclass, replace

from parley.algorithms.algorithm import Plan
from parley.federation.manifest import longest_answer
from parley.federation.meaning import finite_precision
from parley.mpc.parts import parts_of
from parley.privacy.accountants import Reading, accountant
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import Event
from parley.privacy.finite_precision import gaussian_reading
from parley.privacy.mechanism import Unit
from parley.research.experiments.network_cells import DELTA
from parley.study.certified import calibrate_certified
from parley.study.manifests import Claiming, quietest
from parley.study.simulation import Calibrated

WIDE_SHARE = 0.05
SECURITY = "semi-honest"


@dataclass(frozen=True)
class WideClaiming(Claiming):
    """Readings whose certificate may take `WIDE_SHARE` of δ."""

    def epsilon(self, event: Event, delta: float) -> Reading:
        try:
            reading = gaussian_reading(self.precision, self.chosen, event, delta, WIDE_SHARE)
        except ConditionsUnmetError:
            raise
        except InvalidParameterError:
            return Reading(math.inf, delta, self.name)
        return replace(reading, epsilon=reading.epsilon + self.precision.epsilon_added)


def noise_for(plan: Plan, sizes: dict[str, int], dimension: int, epsilon: float, own: float) -> tuple[Calibrated, bool]:
    """The least noise, and whether the nodes of a federation would admit its certificate."""
    parts = parts_of(SECURITY, own)
    try:
        return calibrate_certified(plan, sizes, dimension, epsilon, DELTA, "pld", Unit(), parts), True
    except InvalidParameterError:
        samples = longest_answer(dimension) * plan.releases * parts.samples
        terms = finite_precision(samples, epsilon, DELTA, "strips", "high", WIDE_SHARE)
        claiming = WideClaiming(accountant("pld"), terms)
        mechanism = quietest(plan, sizes, Unit(), epsilon, DELTA, claiming)
        reached = max(claiming.epsilon(event, DELTA).epsilon for event in set(mechanism.events().values()))
        return Calibrated(mechanism, reached, DELTA, "pld", "high", None, parts), False
