"""What is spent of a population's budget and what is left, ε and δ side by side: one wording wherever it is shown."""

from dataclasses import dataclass
from typing import Any

from parley.privacy.filters import ROUNDING, Cap, Cost, Policy, epsilon_counted, rdp_capacity
from parley.privacy.lying import guaranteed, in_words

NEARLY = 0.1
"""Share of either that is left when it is time to say so."""


@dataclass(frozen=True)
class Budget:
    """Of one population."""

    cap: Cap
    epsilon_spent: float
    delta_spent: float
    rule: str = "basic"
    rdp_spent: float = 0.0
    rdp_capacity: float = 0.0
    epsilon_if_a_server_lies: float | None = 0.0
    """ε₂ over all runs; none where one of them had no guarantee."""
    delta_if_a_server_lies: float = 0.0
    caught: int = 0
    """Runs that are charged at (ε₂, δ₂), because a server that had served them was caught."""
    caught_without_guarantee: int = 0

    @property
    def epsilon_left(self) -> float:
        return 0.0 if self.caught_without_guarantee else max(0.0, self.cap.epsilon - self.epsilon_spent)

    @property
    def delta_left(self) -> float:
        return 0.0 if self.caught_without_guarantee else max(0.0, self.cap.delta - self.delta_spent)

    @property
    def _rdp_left(self) -> float:
        return 0.0 if self.caught_without_guarantee else max(0.0, self.rdp_capacity - self.rdp_spent)

    @property
    def shares_left(self) -> dict[str, float]:
        """Of each part of the budget; what is at 0 admits nothing any more."""
        found = {"epsilon": self.epsilon_left / self.cap.epsilon, "delta": self.delta_left / self.cap.delta}
        if self.rule == "rdp":
            found["epsilon"] = self._rdp_left / self.rdp_capacity if self.rdp_capacity > 0 else 0.0
        return found

    @property
    def nearly_used_up(self) -> tuple[str, ...]:
        """Such as ("delta",)."""
        return tuple(what for what, share in self.shares_left.items() if share <= NEARLY)

    @property
    def used_up(self) -> tuple[str, ...]:
        return tuple(what for what, share in self.shares_left.items() if share <= 1e-9)

    @property
    def beyond_the_cap(self) -> bool:
        """By a charge that no cap stood against: only a server that was caught makes one."""
        if self.rule == "rdp":
            return self.caught > 0 and self.rdp_spent > self.rdp_capacity
        held = ((self.epsilon_spent, self.cap.epsilon), (self.delta_spent, self.cap.delta))
        return self.caught > 0 and any(spent > cap * (1 + ROUNDING) for spent, cap in held)

    def __str__(self) -> str:
        parts = [self._spent]
        if self.epsilon_if_a_server_lies != 0:
            parts.append(in_words(self.epsilon_if_a_server_lies, self.delta_if_a_server_lies))
        if self.caught:
            parts.append(self._caught)
        return "; ".join(parts)

    @property
    def _caught(self) -> str:
        runs = f"{self.caught} run{'s' if self.caught > 1 else ''}"
        said = f"a server was caught cheating, and {runs} of it count as what holds if a server lies"
        if self.caught_without_guarantee:
            return f"{said}: of {self.caught_without_guarantee} there is no guarantee, and nothing more is admitted"
        return f"{said}: BEYOND THE CAP, nothing more is admitted" if self.beyond_the_cap else said

    @property
    def _spent(self) -> str:
        delta = f"delta {self.delta_spent:.3g} of {self.cap.delta:g}"
        if self.rule == "rdp":
            return (
                f"Renyi divergence {self.rdp_spent:.4g} of {max(0.0, self.rdp_capacity):.4g} spent, "
                f"{self._rdp_left:.4g} left; "
                f"{delta} taken beside it"
            )
        return (
            f"epsilon {self.epsilon_spent:.4g} of {self.cap.epsilon:g} and {delta} spent, "
            f"{self.epsilon_left:.4g} and {self.delta_left:.3g} left"
        )

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        body: dict[str, Any] = {
            "epsilon_cap": self.cap.epsilon,
            "delta_cap": self.cap.delta,
            "epsilon_spent": self.epsilon_spent,
            "delta_spent": self.delta_spent,
            "epsilon_left": self.epsilon_left,
            "delta_left": self.delta_left,
            "epsilon_if_a_server_lies": guaranteed(self.epsilon_if_a_server_lies),
            "delta_if_a_server_lies": self.delta_if_a_server_lies,
            "caught": self.caught,
            "caught_without_guarantee": self.caught_without_guarantee,
            "beyond_the_cap": self.beyond_the_cap,
            "nearly_used_up": list(self.nearly_used_up),
            "summary": str(self),
        }
        if self.rule == "rdp":
            body |= {"rdp_spent": self.rdp_spent, "rdp_capacity": max(0.0, self.rdp_capacity)}
        return body


def if_a_server_lies(cost: Cost) -> str:
    """What stands beside the ε of runs; and that it was charged, where a server was caught."""
    said = in_words(cost.epsilon_if_a_server_lies, cost.delta_if_a_server_lies)
    return f"{said}; a server was caught, and this is charged" if cost.caught else said


def budget_of(policy: Policy, cap: Cap, spent: Cost) -> Budget:
    """As the ledger's filter counts it."""
    also = (
        spent.epsilon_if_a_server_lies,
        spent.delta_if_a_server_lies,
        spent.caught,
        spent.caught_without_guarantee,
    )
    if policy.rule == "basic":
        return Budget(cap, spent.epsilon, spent.delta, "basic", 0.0, 0.0, *also)
    taken = spent.delta + spent.hop_delta + spent.tail_delta + spent.overflow
    capacity = rdp_capacity(policy, cap, spent)
    return Budget(cap, epsilon_counted(policy, cap, spent), taken, "rdp", spent.rdp, capacity, *also)
