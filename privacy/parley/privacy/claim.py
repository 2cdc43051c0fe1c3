"""What a run may claim: (ε, δ) against servers that follow, (ε₂, δ) if one lies, and the words that state both.

The accountant's figures, with what the finite sampler takes of them (`finite_precision`). Light: imports `privacy`
only.
"""

from dataclasses import dataclass
from typing import Any

from parley.privacy.accountants import Accountant, Reading
from parley.privacy.finite_precision import FinitePrecision, gaussian_reading, require_coverage, require_share
from parley.privacy.lying import FOLLOWING, NO_GUARANTEE, Servers
from parley.privacy.mechanism import Mechanism
from parley.privacy.worst import worst

TOGETHER = "Only the two aggregators together could break it."


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The guarantee of one run for the units of its worst party, and everything that it rests on."""

    mechanism: Mechanism
    party: str
    gaussian: Reading
    precision: FinitePrecision
    epsilon: float
    """Against any coalition with one server that follows the protocol; with one that lies, where `servers` say so."""
    delta: float
    servers: Servers = FOLLOWING
    epsilon_if_a_server_lies: float | None = None
    """ε₂, at the same δ; None for no guarantee."""

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        dimension: int,
        delta: float,
        chosen: Accountant,
        precision: FinitePrecision,
        servers: Servers = FOLLOWING,
    ) -> "Claim":
        """The claim at a total `delta`; refused where the sampler's certificate covers less or takes too much."""
        require_coverage(precision, mechanism, dimension, servers.samples)
        events = worst(mechanism.events(), chosen)
        readings = {event: gaussian_reading(precision, chosen, event, delta) for event in events.values()}
        party, event = max(events.items(), key=lambda item: readings[item[1]].epsilon)
        reading = readings[event]
        epsilon = reading.epsilon + precision.epsilon_added
        require_share(precision, epsilon)
        lying = _if_one_lies(mechanism, dimension, delta, chosen, servers, epsilon)
        return cls(
            mechanism=mechanism,
            party=party,
            gaussian=reading,
            precision=precision,
            epsilon=epsilon,
            delta=delta,
            servers=servers,
            epsilon_if_a_server_lies=lying,
        )

    @property
    def sentence(self) -> str:
        """The guarantee in words, with what it needs in order to be true."""
        run, sampler = self.mechanism, self.mechanism.sampler(self.party, 0)
        sampling = {
            "wor": f"batches of fixed size drawn without replacement (rate {sampler.rate:.4g})",
            "poisson": f"batches drawn by independent coin flips (rate {sampler.rate:.4g}, padded to {sampler.length})",
        }[sampler.kind]
        others = "" if len(run.cohorts) == 1 else f" (that of {self.party}, the least protected of {len(run.cohorts)})"
        added_delta = self.delta - self.gaussian.delta
        return (
            f"Computational, {self._against}: the {run.releases} released estimators are "
            f"({self.epsilon:.4g}, {self.delta:.3g})-differentially private for each {run.unit.name}{others} under "
            f"{run.relation.value}, by {sampling} and noise of {run.noise_multiplier:.4g} times the sensitivity, "
            f"accountant {self.gaussian.accountant}; the finite noise sampler takes {self.precision.epsilon_added:.2g} "
            f"of epsilon and {added_delta:.2g} of delta. {self._otherwise}"
        )

    @property
    def _against(self) -> str:
        how = "may do anything at all" if self.servers.left == 1 else "follows the protocol"
        return f"against any coalition of the coordinator, all other parties and one aggregator that {how}"

    @property
    def _otherwise(self) -> str:
        if self.servers.left == 1:
            return f"{TOGETHER} It protects the privacy of every record, not the correctness of the result."
        audits = f" {self.servers.audits}" if self.servers.audits else ""
        if self.epsilon_if_a_server_lies is None:
            return f"{TOGETHER[:-1]}, or one that does not follow the protocol: {NO_GUARANTEE}.{audits}"
        return (
            f"If that aggregator does anything at all, they are ({self.epsilon_if_a_server_lies:.4g}, "
            f"{self.delta:.3g})-differentially private by the noise that the other one adds of its own. "
            f"{TOGETHER}{audits}"
        )

    def as_json(self) -> dict[str, Any]:
        """For reports and ledgers."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_if_a_server_lies": self.epsilon_if_a_server_lies,
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


def _if_one_lies(
    mechanism: Mechanism, dimension: int, delta: float, chosen: Accountant, servers: Servers, epsilon: float
) -> float | None:
    """Of the least protected party: what any has no guarantee of, the run has none of."""
    largest = 0.0
    for event in worst(mechanism.events(), chosen).values():
        found = servers.epsilon_if_one_lies(event, dimension, delta, chosen, epsilon)
        if found is None:
            return None
        largest = max(largest, found)
    return largest
