"""What a run costs if one server did anything whatever: (ε₂, δ₂), beside the (ε, δ) against servers that follow.

Whatever a server lies about, the other one's own part of the noise is drawn by that one alone and stays. So ε₂ is what
the accountant finds for a run whose noise is that part and nothing else, with the run's own sampling and a certificate
of the finite sampler for it: never a multiple of ε, for sampling amplifies little at small noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from parley.privacy.accountants import Accountant, accountant
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import SMALLEST_NOISE, Event
from parley.privacy.finite_precision import FinitePrecision, gaussian_reading, generous_reading

LARGEST_GUARANTEE = 10.0
"""Beyond it ε₂ is called none: e^10 to one is no protection that anybody could rely on."""
SHARE_IF_LYING = 0.1
"""Of ε₂ and of its δ that the finite sampler may take: a figure for the worst case, not one to calibrate by."""
NO_GUARANTEE = "no guarantee if a server lies"

Certify = Callable[[int, float, float], FinitePrecision]
"""A certificate for so many samples at (ε, δ), or an InvalidParameterError where none is; equal ones hash alike."""


def uncertified(samples: int, epsilon: float, delta: float) -> FinitePrecision:
    """No law is at hand, so nothing can be certified."""
    raise InvalidParameterError("no certificate of the noise is at hand: compute the run's with its manifest")


@dataclass(frozen=True)
class Servers:
    """Who makes the noise, as far as accounting has to know."""

    samples: int = 1
    """Of the certified law per coordinate, in what the claim counts."""
    left: float = 0.0
    """The deviation that is left if one server does anything whatever, over what the claim counts; 1 is all of it."""
    certify: Certify = uncertified
    audits: str = ""
    """What their audits of each other are worth, in a sentence of its own; empty where there are none."""

    def epsilon_if_one_lies(
        self, event: Event, dimension: int, delta: float, chosen: Accountant, epsilon: float
    ) -> float | None:
        """ε₂ of one party's units at the run's δ; `epsilon` is its ε. None: no guarantee if a server lies."""
        if self.left == 1:
            return guaranteed(epsilon)
        if self.left == 0:
            return None
        return _epsilon_of_the_own_part(event, dimension * event.count, delta, chosen.name, self.left, self.certify)


FOLLOWING = Servers()
"""One joint sample and nothing else: the claim rests on servers that follow the protocol."""


@lru_cache(maxsize=64)
def _epsilon_of_the_own_part(
    event: Event, samples: int, delta: float, by: str, left: float, certify: Certify
) -> float | None:
    alone = [release.noise_multiplier * left for release in event.releases]
    if not alone or min(alone) < SMALLEST_NOISE:
        return None
    chosen, exposed = accountant(by), event.with_noise(min(alone))
    try:
        generous = generous_reading(chosen, exposed, delta, SHARE_IF_LYING)
        if not generous.epsilon <= LARGEST_GUARANTEE:
            return None
        precision = certify(samples, generous.epsilon, delta)
        reading = gaussian_reading(precision, chosen, exposed, delta, SHARE_IF_LYING, generous)
        found = reading.epsilon + precision.epsilon_added
    except (ConditionsUnmetError, InvalidParameterError):
        return None
    return found if found <= LARGEST_GUARANTEE else None


def added(first: float | None, second: float | None) -> float | None:
    """Over two runs, by basic composition: one without a guarantee leaves none."""
    return None if first is None or second is None else first + second


def guaranteed(epsilon: float | None) -> float | None:
    """What may be shown of a sum over runs: one beyond `LARGEST_GUARANTEE` is no guarantee either."""
    return epsilon if epsilon is not None and epsilon <= LARGEST_GUARANTEE else None


def in_a_column(epsilon: float | None) -> str:
    """Where the heading says what it is about."""
    epsilon = guaranteed(epsilon)
    return "no guarantee" if epsilon is None else f"{math.ceil(epsilon * 1e4) / 1e4:.5g}"


def in_words(epsilon: float | None, delta: float) -> str:
    """As budgets, reports and approvals say it."""
    epsilon = guaranteed(epsilon)
    if epsilon is None:
        return NO_GUARANTEE
    return f"epsilon {math.ceil(epsilon * 1e4) / 1e4:.5g} at delta {delta:.3g} if a server lies"
