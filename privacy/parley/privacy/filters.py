"""Budgets over several runs: what a run costs, and the filter that decides whether it still fits.

Parameters of a later run may depend on the outputs of earlier ones, so that adding up is sound only under a rule that
was fixed beforehand. Two are offered. `basic`: the runs' (ε, δ) add up (Rogers, Roth, Ullman and Vadhan 2016, basic
composition as a filter). `rdp`: their Rényi divergences at ONE order add up (Feldman and Zrnic 2021, Theorem 4.3). The
noise samplers' terms add up separately, as the hops between the two laws do (see `claim`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from parley.privacy.accountants import Accountant, accountant, conversion, require_delta
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event
from parley.privacy.finite_precision import FinitePrecision, gaussian_reading, require_coverage
from parley.privacy.lying import FOLLOWING, NO_GUARANTEE, Servers, added
from parley.privacy.mechanism import Mechanism, Unit
from parley.privacy.sampling import require_positive

LYING = "epsilon_if_a_server_lies"
CAUGHT = ("caught", "caught_without_guarantee")
NOTHING_MORE = (
    "a server was caught cheating that had served a run without any guarantee against that: nothing more fits this "
    "population"
)
ROUNDING = 1e-12
"""Relative slack of a comparison, so that ten tenths fit one."""


@dataclass(frozen=True)
class Policy:
    """How runs add up, for the whole life of a ledger."""

    rule: str = "basic"
    order: float | None = None

    def __post_init__(self) -> None:
        if self.rule not in ("basic", "rdp"):
            raise InvalidParameterError(f"no filter {self.rule!r}: choose basic or rdp")
        if self.rule == "basic" and self.order is not None:
            raise InvalidParameterError("the basic filter has no order: leave it out")
        if self.rule == "rdp" and require_positive("the filter's order", self.order) <= 1.0:
            raise InvalidParameterError(f"the filter's order is {self.order}: give a number above 1, such as 16")

    @property
    def accountant(self) -> str:
        """What a charge under the rdp filter is computed by."""
        return f"rdp at order {self.order:g}"

    def as_json(self) -> dict[str, Any]:
        """As the first entry keeps it."""
        return {"rule": self.rule, "order": self.order}


@dataclass(frozen=True)
class Cap:
    """All that a population's units may ever be exposed to."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require_positive("the cap on epsilon", self.epsilon)
        require_delta(self.delta)


@dataclass(frozen=True)
class Cost:
    """What was charged so far, or what one run charges."""

    epsilon: float = 0.0
    """Sum of the runs' total ε (basic filter), and of ε₂ where a server was caught (either)."""
    delta: float = 0.0
    """Sum of the runs' total δ, likewise."""
    rdp: float = 0.0
    """Sum of the runs' Rényi divergences at the filter's order (rdp filter)."""
    xi: float = 0.0
    hop_delta: float = 0.0
    tail_delta: float = 0.0
    overflow: float = 0.0
    """Sum of the runs' probabilities of dropping a draw (rdp filter)."""
    epsilon_if_a_server_lies: float | None = 0.0
    """Sum of the runs' ε₂ (under either filter); None where one of them has no guarantee if a server lies."""
    delta_if_a_server_lies: float = 0.0
    """Sum of the δ at which they are stated."""
    caught: int = 0
    """Runs that count at (ε₂, δ₂), because a server that had served them was caught."""
    caught_without_guarantee: int = 0
    """Those of them that have no ε₂: no figure covers what was spent, and nothing more fits."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name == LYING:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidParameterError(f"a cost of {value!r} cannot be charged: costs are finite and at least 0")

    def plus(self, other: "Cost") -> "Cost":
        """Both."""
        lying = added(self.epsilon_if_a_server_lies, other.epsilon_if_a_server_lies)
        sums = {name: value + getattr(other, name) for name, value in vars(self).items() if name != LYING}
        return Cost(**sums, epsilon_if_a_server_lies=lying)


@dataclass(frozen=True)
class Charge:
    """One run's cost to the units of one party, with what it was computed from."""

    mechanism: str
    """Digest of the mechanism."""
    event: Event
    unit: Unit
    precision: FinitePrecision
    accountant: str
    cost: Cost
    rdp_per_release: tuple[tuple[int, float], ...] = ()
    """(count, Rényi divergence of one release) in the order of the event; for the rdp filter."""

    def after(self, releases: int) -> Cost:
        """The cost of a run that ended after this many releases.

        Under the rdp filter what was not released is not charged, whatever the end depended on. A certificate (ε, δ)
        for k releases does not hold for a run whose end depended on its outputs, so the basic filter gives a run back
        whole, where nothing was released, or not at all.
        """
        if releases == 0:
            return Cost()
        if releases >= self.event.count or not self.rdp_per_release:
            return self.cost
        left, total = releases, 0.0
        for count, one in self.rdp_per_release:
            taken = min(left, count)
            total += taken * one
            left -= taken
        kept = vars(self.cost) | {"rdp": total, "overflow": self.event.first(releases).overflow_probability}
        return Cost(**kept)

    @property
    def after_a_server_was_caught(self) -> Cost:
        """All of the run, however it ended, at (ε₂, δ₂).

        Nobody is charged less for it than before: under the rdp filter, which has no figure of ε₂ to put in place of
        the run's divergence, both are.
        """
        cost, lying = self.cost, self.cost.epsilon_if_a_server_lies
        if lying is None:
            return replace(cost, caught=1, caught_without_guarantee=1)
        epsilon, delta = max(cost.epsilon, lying), max(cost.delta, cost.delta_if_a_server_lies)
        return replace(cost, epsilon=epsilon, delta=delta, caught=1)

    @property
    def consistent(self) -> bool:
        """What a ledger can check without an accountant: that something is charged, and for every release."""
        if self.cost.caught or self.cost.caught_without_guarantee:
            return False
        if not self.rdp_per_release:
            return 0 < self.cost.delta < 1 and self.cost.rdp == 0
        counts = [count for count, _ in self.rdp_per_release]
        total = math.fsum(count * one for count, one in self.rdp_per_release)
        return (
            counts == [release.count for release in self.event.releases]
            and all(one > 0 for _, one in self.rdp_per_release)
            and math.isclose(total, self.cost.rdp, rel_tol=1e-9)
        )

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {
            "mechanism": self.mechanism,
            "event": self.event.as_json(),
            "unit": self.unit.column,
            "precision": self.precision.as_json(),
            "accountant": self.accountant,
            "cost": {name: value for name, value in vars(self.cost).items() if name not in CAUGHT},
            "rdp_per_release": [list(item) for item in self.rdp_per_release],
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Charge":
        """The inverse of `as_json`."""
        try:
            return cls(
                body["mechanism"],
                Event.from_json(body["event"]),
                Unit(body["unit"]),
                FinitePrecision(**body["precision"]),
                body["accountant"],
                Cost(**({LYING: None} | body["cost"])),  # an older ledger's runs promised nothing if a server lies
                tuple((count, one) for count, one in body["rdp_per_release"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameterError(f"not a charge ({error}): store what Charge.as_json returns") from None


def charge_of(
    mechanism: Mechanism,
    party: str,
    dimension: int,
    delta: float,
    chosen: Accountant,
    precision: FinitePrecision,
    policy: Policy,
    servers: Servers = FOLLOWING,
) -> Charge:
    """What the whole run costs the units of `party`. Needs the `accounting` extra: run it in a short-lived process.

    `delta` is the run's total; the rdp filter does not charge it, but the sampler is held to its share of it.
    """
    event = mechanism.event(party)
    require_coverage(precision, mechanism, dimension, servers.samples)
    reading = gaussian_reading(precision, chosen, event, delta)
    epsilon = reading.epsilon + precision.epsilon_added
    lying = servers.epsilon_if_one_lies(event, dimension, delta, chosen, epsilon)
    if_one_lies: dict[str, Any] = {LYING: lying, "delta_if_a_server_lies": delta if lying is not None else 0.0}
    if policy.rule == "basic":
        cost = Cost(epsilon=epsilon, delta=delta, **if_one_lies)
        return Charge(mechanism.digest, event, mechanism.unit, precision, chosen.name, cost)
    cost, parts = _renyi_cost(event, precision, policy)
    cost = replace(cost, **if_one_lies)
    return Charge(mechanism.digest, event, mechanism.unit, precision, policy.accountant, cost, parts)


def recounted(charge: Charge, policy: Policy) -> Cost:
    """The cost that the accountant states today for what was charged, to hold a ledger's figures against."""
    if policy.rule == "rdp":
        return _renyi_cost(charge.event, charge.precision, policy)[0]
    reading = gaussian_reading(charge.precision, accountant(charge.accountant), charge.event, charge.cost.delta)
    return Cost(epsilon=reading.epsilon + charge.precision.epsilon_added, delta=charge.cost.delta)


def _renyi_cost(event: Event, precision: FinitePrecision, policy: Policy) -> tuple[Cost, tuple[tuple[int, float], ...]]:
    from parley.privacy.rdp_accountant import RdpAccountant

    if policy.order is None:
        raise InvalidParameterError("the rdp filter needs an order: fix one in the policy, such as 16")
    renyi = RdpAccountant().renyi
    parts = tuple(
        (release.count, renyi(Event((release,), event.relation), policy.order) / release.count)
        for release in event.releases
    )
    cost = Cost(
        rdp=math.fsum(count * one for count, one in parts),
        xi=precision.xi,
        hop_delta=precision.hop_delta,
        tail_delta=precision.tail_delta,
        overflow=event.overflow_probability,
    )
    return cost, parts


@dataclass(frozen=True)
class Room:
    """What a population's budget still admits."""

    fits: bool
    left: str
    """In words, for a refusal: what is left and what would fit."""
    exhausted: tuple[str, ...] = ()
    """Where it does not fit: of what there is too little, `epsilon`, `delta` or both."""


@dataclass(frozen=True)
class Limit:
    """What a population's owner lets be spent in all, below its cap: such as a policy's `epsilon_total`."""

    epsilon: float
    claimed: float = 0.0
    """The ε that the run claims, which counts where it is more than what the run is charged."""
    epsilon_if_a_server_lies: float | None = None
    """ε₂ over all runs; none for any, and for runs without a guarantee."""


def epsilon_of(policy: Policy, cap: Cap, spent: Cost) -> float:
    """What was spent, as one ε; without bound after a run that no figure covers."""
    return math.inf if spent.caught_without_guarantee else epsilon_counted(policy, cap, spent)


def epsilon_counted(policy: Policy, cap: Cap, spent: Cost) -> float:
    """The same of all that there are figures for, to be shown."""
    if policy.rule == "basic":
        return spent.epsilon
    if spent.rdp == 0 or policy.order is None:
        return spent.epsilon
    # At half of the cap's δ, so that the sampler's terms have room beside it.
    return spent.epsilon + spent.rdp + max(0.0, conversion(policy.order, cap.delta / 2)) + 2 * spent.xi


def room_within(policy: Policy, cap: Cap, spent: Cost, wanted: Cost, limit: Limit) -> Room:
    """Whether `wanted` fits beside `spent` within the owner's limit."""
    before, after = epsilon_of(policy, cap, spent), epsilon_of(policy, cap, spent.plus(wanted))
    needed = max(after, before + limit.claimed)
    if not needed <= limit.epsilon * (1 + ROUNDING):
        text = f"epsilon {before:.4g} of {limit.epsilon:g} is spent, and the run would make it {needed:.4g}"
        return Room(False, text, ("epsilon",))
    most = limit.epsilon_if_a_server_lies
    total = added(spent.epsilon_if_a_server_lies, wanted.epsilon_if_a_server_lies)
    if most is not None and not (total is not None and total <= most * (1 + ROUNDING)):
        reached = NO_GUARANTEE if total is None else f"epsilon {total:.4g} if a server lies"
        return Room(False, f"{reached}, and the limit is {most:g}", ("epsilon_if_a_server_lies",))
    return Room(True, "")


def room_for(policy: Policy, cap: Cap, spent: Cost, wanted: Cost) -> Room:
    """Whether `wanted` fits beside `spent`, and what would."""
    if spent.caught_without_guarantee:
        return Room(False, NOTHING_MORE, ("epsilon",))
    if policy.rule == "basic":
        epsilon_left, delta_left = max(0.0, cap.epsilon - spent.epsilon), max(0.0, cap.delta - spent.delta)
        over = {
            "epsilon": spent.epsilon + wanted.epsilon > cap.epsilon * (1 + ROUNDING),
            "delta": spent.delta + wanted.delta > cap.delta * (1 + ROUNDING),
        }
        return Room(
            not any(over.values()),
            f"epsilon {epsilon_left:.4g} of {cap.epsilon:g} and delta {delta_left:.3g} of {cap.delta:g} are left, "
            f"the run needs {wanted.epsilon:.4g} and {wanted.delta:.3g}" + _advice(epsilon_left, delta_left),
            tuple(what for what, exceeded in over.items() if exceeded),
        )
    capacity = rdp_capacity(policy, cap, spent.plus(wanted))
    before = rdp_capacity(policy, cap, spent)
    left = max(0.0, before - spent.rdp)
    fits = spent.rdp + wanted.rdp <= capacity * (1 + ROUNDING)
    share = math.floor(100 * min(1.0, left / wanted.rdp)) if wanted.rdp else 100
    return Room(
        fits,
        f"Renyi divergence {left:.4g} of {max(0.0, before):.4g} at order {policy.order:g} is left, the run needs "
        f"{wanted.rdp:.4g}: about {share} % of its rounds would fit, or the same rounds with more noise",
        () if fits else ("epsilon",) if capacity > 0 else ("delta",),
    )


def rdp_capacity(policy: Policy, cap: Cap, spent: Cost) -> float:
    """The Rényi divergence at the filter's order that the cap admits, after everything that is not one.

    Runs of a server that was caught are (ε₂, δ₂), beside the divergences: basic composition of the two.
    """
    if policy.order is None:
        raise InvalidParameterError("the rdp filter needs an order: fix one in the policy, such as 16")
    epsilon = cap.epsilon - spent.epsilon - 2 * spent.xi
    if epsilon <= 0:
        return -math.inf
    grown = math.exp(min(700.0, epsilon))
    left = cap.delta - spent.delta - spent.hop_delta
    delta = (left - grown * math.exp(spent.xi) * spent.tail_delta) * math.exp(-spent.xi)
    delta -= (1 + grown) * spent.overflow
    if delta <= 0:
        return -math.inf
    return epsilon - max(0.0, conversion(policy.order, delta))


def _advice(epsilon_left: float, delta_left: float) -> str:
    if epsilon_left <= 0 or delta_left <= 0:
        return "; nothing more fits this population"
    return (
        f"; what would fit is a run calibrated for these: parley privacy calibrate --epsilon {epsilon_left:.4g} "
        f"--delta {delta_left:.3g}"
    )
