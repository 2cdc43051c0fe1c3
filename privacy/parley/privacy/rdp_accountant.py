"""The accountant `rdp`: Rényi differential privacy, tracked as a curve over orders. Needs the `accounting` extra.

Sampling without replacement goes through `dp-accounting` 0.6.0 (Wang, Balle, Kasiviswanathan 2019, Theorem 27), whose
two accountants disagree by a factor of two about what a noise multiplier is under replace-one: its RDP divides by the
sensitivity of the sum as it stands (2K), its PLD by the contribution bound K. `tests/privacy` holds the library to it.
Poisson sampling under replace-one, which the library's RDP refuses, is integrated from the pair of
docs/privacy-wor-profile.md, § 3. ε follows by Proposition 12 of Canonne, Kamath and Steinke 2020.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from parley.privacy.accountants import Reading, conversion, require_delta, require_epsilon, with_overflow
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation
from parley.privacy.pairs import Floats, Mixture, poisson_replace_pair
from parley.privacy.sampling import Sampler

ORDERS: tuple[float, ...] = (
    *(1 + quarter / 4 for quarter in range(1, 21)),
    *range(7, 65),
    *range(80, 257, 16),
    *(384, 512, 1024, 2048),
)

COSTLY = range(65, 257)
"""Where the library's time grows with the square of the order: looked at every 16, then 8 beside the best."""


@lru_cache(maxsize=256)
def _curve(
    sampler: Sampler, noise_multiplier: float, relation: NeighbouringRelation, orders: tuple[float, ...]
) -> tuple[float, ...]:
    """RDP of one release at the given orders."""
    if sampler.rate == 1:
        shift = 1 / noise_multiplier if relation is NeighbouringRelation.REPLACE_ONE else 0.5 / noise_multiplier
        return tuple(order * shift * shift / 2 for order in orders)
    if sampler.kind == "poisson" and relation is NeighbouringRelation.REPLACE_ONE:
        pair = poisson_replace_pair(sampler.rate, 1 / noise_multiplier)
        return tuple(_renyi(pair.upper, pair.lower, order, 1 / noise_multiplier) for order in orders)
    return _library_curve(sampler, noise_multiplier, relation, orders)


def _library_curve(
    sampler: Sampler, noise_multiplier: float, relation: NeighbouringRelation, orders: tuple[float, ...]
) -> tuple[float, ...]:
    import dp_accounting

    library = dp_accounting.NeighboringRelation
    if relation is NeighbouringRelation.REPLACE_ONE:
        event = dp_accounting.SampledWithoutReplacementDpEvent(
            sampler.units, sampler.mean_batch, dp_accounting.GaussianDpEvent(noise_multiplier)
        )
        accountant = dp_accounting.rdp.RdpAccountant(list(orders), library.REPLACE_ONE)
    else:
        # One unit joins or leaves: the sensitivity is half, so the same noise is twice as many multiples of it.
        event = dp_accounting.PoissonSampledDpEvent(sampler.rate, dp_accounting.GaussianDpEvent(2 * noise_multiplier))
        accountant = dp_accounting.rdp.RdpAccountant(list(orders), library.ADD_OR_REMOVE_ONE)
    accountant.compose(event)
    return tuple(float(value) for value in accountant.rdp)


def _renyi(upper: Mixture, lower: Mixture, order: float, shift: float) -> float:
    """D_α(upper‖lower) by the trapezoidal rule, which converges exponentially for such integrands; rounded up."""
    step = min(0.05, 0.5 / shift)
    reach = 14 + order * shift
    x = np.arange(-reach, reach, step)
    exponent = order * _log_density(upper, x) + (1 - order) * _log_density(lower, x)
    return max(0.0, (float(logsumexp(exponent)) + math.log(step)) / (order - 1)) * (1 + 1e-9) + 1e-15


def _log_density(mixture: Mixture, x: Floats) -> Floats:
    terms = [
        math.log(weight) - (x - mean) ** 2 / 2 - math.log(2 * math.pi) / 2
        for weight, mean in mixture.components
        if weight > 0
    ]
    return np.asarray(logsumexp(np.stack(terms), axis=0), dtype=np.float64)


def _total(event: Event, orders: tuple[float, ...]) -> tuple[float, ...]:
    total = [0.0] * len(orders)
    for release in event.releases:
        one = _curve(release.sampler, release.noise_multiplier, event.relation, orders)
        total = [sum_ + release.count * value for sum_, value in zip(total, one, strict=True)]
    return tuple(total)


@dataclass(frozen=True)
class RdpAccountant:
    """Rényi divergences added up, and converted at the best order."""

    name: str = "rdp"

    def curve(self, event: Event) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The orders, and the event's RDP at each."""
        return ORDERS, _total(event, ORDERS)

    @property
    def certifies(self) -> bool:
        """An upper bound, so a guarantee."""
        return True

    def renyi(self, event: Event, order: float) -> float:
        """The event's RDP at one of `ORDERS`, for a filter whose order the policy fixed."""
        if order not in ORDERS:
            raise InvalidParameterError(f"no curve at order {order:g}: choose one of ORDERS, such as 8, 16 or 32")
        return self.curve(event)[1][ORDERS.index(order)]

    def epsilon(self, event: Event, delta: float) -> Reading:
        """The smallest ε at δ, and the order that gives it."""
        require_delta(delta)
        curve = dict(zip(*self.curve(event), strict=True))

        def best(room: float) -> tuple[float, float]:
            # A Kullback-Leibler divergence d allows no more than δ = √(1 − e^−d) at ε = 0 (Bretagnolle and Huber 1979).
            return min(
                (0.0 if -math.expm1(-value) <= room * room else max(0.0, value + conversion(order, room)), order)
                for order, value in curve.items()
            )

        order = best(delta)[1]
        if order in COSTLY:
            beside = (order - 8, order + 8)
            curve |= dict(zip(beside, _total(event, beside), strict=True))
        epsilon = with_overflow(event, delta, lambda room: best(room)[0])
        return Reading(epsilon, delta, self.name, best(delta)[1])

    def delta(self, event: Event, epsilon: float) -> float:
        """The smallest δ at ε: the conversion solved for δ at every order."""
        require_epsilon(epsilon)
        orders, values = self.curve(event)
        logs = [
            (order - 1) * (value - epsilon + math.log1p(-1 / order)) - math.log(order)
            for order, value in zip(orders, values, strict=True)
        ]
        overflow = (1 + math.exp(min(epsilon, 700.0))) * event.overflow_probability
        return min(1.0, math.exp(min(0.0, *logs)) + overflow)
