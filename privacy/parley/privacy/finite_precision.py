"""What the finite noise sampler costs a claim, and the Gaussian reading at the δ that it leaves.

The noise is not a Gaussian but a finite law close to one, drawn by two servers. Hopping from one law to the other under
each data set costs ξ and δ′ twice, and the samples where the laws differ much cost δ″: with (ε, δ) for the Gaussian
mechanism the real one has ε + 2ξ and e^ξ·δ + δ′ + e^(ε+ξ)·δ″, under adaptivity and any sampling. Light: imports
`privacy` only.
"""

import math
from dataclasses import dataclass
from typing import Any

from parley.privacy.accountants import Accountant, Reading, require_delta
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation
from parley.privacy.mechanism import Mechanism
from parley.privacy.sampling import require_whole

LARGEST_SHARE = 0.01
"""Of ε and of δ that the sampler may take; beyond it the run is refused, and a finer sampler is what is needed."""


LARGEST_DIMENSION = 1 << 40


@dataclass(frozen=True)
class FinitePrecision:
    """The terms of a noise certificate, for all samples of one run."""

    samples: int
    """Dimension times releases, d·(T + 1), times the samples that each coordinate's noise is made of."""
    xi: float
    """ξ: by how much one hop between the laws moves log-probabilities, outside of an event of probability δ′"""
    hop_delta: float
    """δ′"""
    tail_delta: float
    """δ″: mass of the missing tail and of the cells that are far off, over all samples"""

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 0:
            raise InvalidParameterError(f"the noise certificate covers {self.samples!r} samples: give a whole number")
        for name, value in (("xi", self.xi), ("hop delta", self.hop_delta), ("tail delta", self.tail_delta)):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidParameterError(
                    f"the noise certificate has {name} {value}: give a finite number of at least 0"
                )

    @classmethod
    def from_certificate(
        cls, samples: int, epsilon: float, delta: float, epsilon_added: float, delta_added: float
    ) -> "FinitePrecision":
        """From what a noise certificate states at one (ε, δ): 2ξ, and all that is added to δ there.

        How the latter splits into δ′ and e^(ε+ξ)·δ″ is not stated, so each is taken to be all of it: sound at every ε.
        """
        xi = epsilon_added / 2
        rest = max(0.0, delta_added - math.expm1(min(700.0, xi)) * delta)
        return cls(samples, xi, rest, rest * math.exp(-epsilon - xi))

    @property
    def epsilon_added(self) -> float:
        """2ξ"""
        return 2 * self.xi

    def delta_total(self, epsilon: float, delta: float) -> float:
        """e^ξ·δ + δ′ + e^(ε+ξ)·δ″ for the Gaussian mechanism's (ε, δ)."""
        widened = math.exp(min(700.0, epsilon + self.xi))
        return math.exp(min(700.0, self.xi)) * delta + self.hop_delta + widened * self.tail_delta

    def as_json(self) -> dict[str, Any]:
        """The canonical form that ledgers keep."""
        return {
            "samples": self.samples,
            "xi": self.xi,
            "hop_delta": self.hop_delta,
            "tail_delta": self.tail_delta,
        }


EXACT = FinitePrecision(0, 0.0, 0.0, 0.0)
"""A sampler without error: for calculations before a certificate exists, never for a run with servers."""


def generous_reading(chosen: Accountant, event: Event, delta: float, share: float = LARGEST_SHARE) -> Reading:
    """ε at the least δ that the sampler's terms may leave of a total of `delta`: never below the claim's."""
    require_delta(delta)
    if not chosen.certifies:
        raise InvalidParameterError(f"accountant {chosen.name} states no guarantee as it is set: claim with pld or rdp")
    if event.relation is not NeighbouringRelation.REPLACE_ONE:
        raise InvalidParameterError(
            "party sizes are public, so claims are under replace-one: add-or-remove only compares"
        )
    return chosen.epsilon(event, (1 - share) * delta)


def gaussian_reading(
    precision: FinitePrecision,
    chosen: Accountant,
    event: Event,
    delta: float,
    share: float = LARGEST_SHARE,
    generous: Reading | None = None,
) -> Reading:
    """ε of the Gaussian mechanism at the δ that the sampler's terms leave of a total of `delta`.

    δ″ is weighed by e^ε, which depends on the δ that is left: start from ε at the total less the largest share
    of it (`generous`, if it is known), which is not below the final one as long as the certificate keeps to that share,
    and refuse where it does not.
    """
    generous = generous or generous_reading(chosen, event, delta, share)
    if not math.isfinite(generous.epsilon):
        raise InvalidParameterError(
            f"no finite epsilon exists at delta {delta}: raise delta, or give poisson a larger cap"
        )
    added = precision.delta_total(generous.epsilon, 0.0)
    left = (delta - added) / math.exp(min(700.0, precision.xi))
    if left < (1 - share) * delta:
        raise InvalidParameterError(
            f"the noise sampler takes {(delta - left) / delta:.2%} of delta {delta}, more than {share:.0%}: "
            "use a finer noise preset, fewer rounds or a larger delta"
        )
    return chosen.epsilon(event, left)


def require_share(precision: FinitePrecision, epsilon: float) -> None:
    """Refuse a run's claim if the sampler takes more than its share of it.

    Of the least protected party's ε, that is: a party that the same noise protects better has a smaller ε and the same
    addition, and neither that nor a search for noise that passes a small ε is a reason to refuse.
    """
    if precision.epsilon_added > LARGEST_SHARE * epsilon:
        raise InvalidParameterError(
            f"the noise sampler adds {precision.epsilon_added:.3g} to epsilon "
            f"{epsilon - precision.epsilon_added:.3g}, more than {LARGEST_SHARE:.0%}: "
            "use a finer noise preset or fewer rounds"
        )


def require_coverage(precision: FinitePrecision, mechanism: Mechanism, dimension: int, per_coordinate: int = 1) -> None:
    """Refuse a certificate that counts fewer samples than the claim rests on; `EXACT` counts none and claims none."""
    needed = require_whole("dimension", dimension, 1, LARGEST_DIMENSION) * mechanism.releases * per_coordinate
    if precision != EXACT and precision.samples < needed:
        raise InvalidParameterError(
            f"the noise certificate covers {precision.samples} samples and the run draws {needed}: certify the run's"
        )
