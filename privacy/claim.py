"""What a run may claim: the accountant's (ε, δ), the finite sampler's price, and the sentence that states both.

The noise is not a Gaussian but a finite law close to one, drawn by two servers. Hopping from one law to the other under
each data set costs ξ and δ′ twice, and the samples where the laws differ much cost δ″: with (ε, δ) for the Gaussian
mechanism the real one has ε + 2ξ and e^ξ·δ + δ′ + e^(ε+ξ)·δ″, under adaptivity and any sampling. Light: imports
`privacy` only.
"""

import math
from dataclasses import dataclass
from typing import Any

from privacy.accountants import Accountant, Reading, require_delta
from privacy.errors import InvalidParameter
from privacy.event import Event, NeighbouringRelation
from privacy.mechanism import Mechanism
from privacy.sampling import require_whole
from privacy.worst import worst

LARGEST_SHARE = 0.01
"""Of ε and of δ that the sampler may take; beyond it the run is refused, and a finer sampler is what is needed."""


LARGEST_DIMENSION = 1 << 40


@dataclass(frozen=True)
class FinitePrecision:
    """The terms of a noise certificate, for all samples of one run."""

    samples: int
    """Dimension times releases, d·(T + 1)."""
    xi: float
    """ξ: by how much one hop between the laws moves log-probabilities, outside of an event of probability δ′"""
    hop_delta: float
    """δ′"""
    tail_delta: float
    """δ″: mass of the missing tail and of the cells that are far off, over all samples"""

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 0:
            raise InvalidParameter(f"the noise certificate covers {self.samples!r} samples: give a whole number")
        for name, value in (("xi", self.xi), ("hop delta", self.hop_delta), ("tail delta", self.tail_delta)):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidParameter(f"the noise certificate has {name} {value}: give a finite number of at least 0")

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


def gaussian_reading(precision: FinitePrecision, chosen: Accountant, event: Event, delta: float) -> Reading:
    """ε of the Gaussian mechanism at the δ that the sampler's terms leave of a total of `delta`.

    δ″ is weighed by e^ε, which depends on the δ that is left: start from ε at 99 % of the total, which is not below
    the final one as long as the certificate keeps to its share, and refuse where it does not. More noise never makes
    a refusal nor a larger ε, so that a search for noise may go by both.
    """
    require_delta(delta)
    if not chosen.certifies:
        raise InvalidParameter(f"accountant {chosen.name} states no guarantee as it is set: claim with pld or rdp")
    if event.relation is not NeighbouringRelation.REPLACE_ONE:
        raise InvalidParameter("party sizes are public, so claims are under replace-one: add-or-remove only compares")
    generous = chosen.epsilon(event, (1 - LARGEST_SHARE) * delta)
    if not math.isfinite(generous.epsilon):
        raise InvalidParameter(f"no finite epsilon exists at delta {delta}: raise delta, or give poisson a larger cap")
    added = precision.delta_total(generous.epsilon, 0.0)
    left = (delta - added) / math.exp(min(700.0, precision.xi))
    if left < (1 - LARGEST_SHARE) * delta:
        raise InvalidParameter(
            f"the noise sampler takes {(delta - left) / delta:.2%} of delta {delta}, more than {LARGEST_SHARE:.0%}: "
            "use a finer noise preset, fewer rounds or a larger delta"
        )
    return chosen.epsilon(event, left)


def require_share(precision: FinitePrecision, epsilon: float) -> None:
    """Refuse a run's claim if the sampler takes more than its share of it.

    Of the least protected party's ε, that is: a party that the same noise protects better has a smaller ε and the same
    addition, and neither that nor a search for noise that passes a small ε is a reason to refuse.
    """
    if precision.epsilon_added > LARGEST_SHARE * epsilon:
        raise InvalidParameter(
            f"the noise sampler adds {precision.epsilon_added:.3g} to epsilon "
            f"{epsilon - precision.epsilon_added:.3g}, more than {LARGEST_SHARE:.0%}: "
            "use a finer noise preset or fewer rounds"
        )


def require_coverage(precision: FinitePrecision, mechanism: Mechanism, dimension: int) -> None:
    """Refuse a certificate that counts fewer samples than the run draws; `EXACT` counts none and claims none."""
    needed = require_whole("dimension", dimension, 1, LARGEST_DIMENSION) * mechanism.releases
    if precision != EXACT and precision.samples < needed:
        raise InvalidParameter(
            f"the noise certificate covers {precision.samples} samples and the run draws {needed}: certify the run's"
        )


@dataclass(frozen=True)
class Claim:
    """The guarantee of one run for the units of its worst party, and everything that it rests on."""

    mechanism: Mechanism
    party: str
    gaussian: Reading
    precision: FinitePrecision
    epsilon: float
    delta: float

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        dimension: int,
        delta: float,
        chosen: Accountant,
        precision: FinitePrecision,
    ) -> "Claim":
        """The claim at a total `delta`; refused where the sampler's certificate covers less or takes too much."""
        require_coverage(precision, mechanism, dimension)
        events = worst(mechanism.events(), chosen)
        readings = {event: gaussian_reading(precision, chosen, event, delta) for event in events.values()}
        party, event = max(events.items(), key=lambda item: readings[item[1]].epsilon)
        reading = readings[event]
        require_share(precision, reading.epsilon + precision.epsilon_added)
        return cls(mechanism, party, reading, precision, reading.epsilon + precision.epsilon_added, delta)

    @property
    def sentence(self) -> str:
        """The guarantee, in one sentence that says what it needs in order to be true."""
        run, sampler = self.mechanism, self.mechanism.sampler(self.party, 0)
        sampling = {
            "wor": f"batches of fixed size drawn without replacement (rate {sampler.rate:.4g})",
            "poisson": f"batches drawn by independent coin flips (rate {sampler.rate:.4g}, padded to {sampler.length})",
        }[sampler.kind]
        others = "" if len(run.cohorts) == 1 else f" (that of {self.party}, the least protected of {len(run.cohorts)})"
        added_delta = self.delta - self.gaussian.delta
        return (
            f"Computational, against semi-honest aggregators: the {run.releases} released estimators are "
            f"({self.epsilon:.4g}, {self.delta:.3g})-differentially private for each {run.unit.name}{others} under "
            f"{run.relation.value}, by {sampling} and noise of {run.noise_multiplier:.4g} times the sensitivity, "
            f"accountant {self.gaussian.accountant}; the finite noise sampler takes {self.precision.epsilon_added:.2g} "
            f"of epsilon and {added_delta:.2g} of delta; "
            "to break it, both aggregators would have to collude, for any coalition of the coordinator, one aggregator "
            "and all other parties is covered."
        )

    def as_json(self) -> dict[str, Any]:
        """For reports and ledgers."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.gaussian.accountant,
            "gaussian_epsilon": self.gaussian.epsilon,
            "gaussian_delta": self.gaussian.delta,
            "finite_precision": self.precision.as_json(),
            "party": self.party,
            "mechanism": self.mechanism.digest,
            "unit": self.mechanism.unit.name,
            "relation": self.mechanism.relation.value,
            "statement": self.sentence,
        }
