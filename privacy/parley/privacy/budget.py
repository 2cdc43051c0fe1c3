"""What is spent of a population's budget and what is left, ε and δ side by side: one wording wherever it is shown."""

from dataclasses import dataclass
from typing import Any

from parley.privacy.filters import Cap, Cost, Policy, epsilon_of, rdp_capacity
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

    @property
    def epsilon_left(self) -> float:
        return max(0.0, self.cap.epsilon - self.epsilon_spent)

    @property
    def delta_left(self) -> float:
        return max(0.0, self.cap.delta - self.delta_spent)

    @property
    def shares_left(self) -> dict[str, float]:
        """Of each part of the budget; what is at 0 admits nothing any more."""
        found = {"epsilon": self.epsilon_left / self.cap.epsilon, "delta": self.delta_left / self.cap.delta}
        if self.rule == "rdp":
            left = max(0.0, self.rdp_capacity - self.rdp_spent)
            found["epsilon"] = left / self.rdp_capacity if self.rdp_capacity > 0 else 0.0
        return found

    @property
    def nearly_used_up(self) -> tuple[str, ...]:
        """Such as ("delta",)."""
        return tuple(what for what, share in self.shares_left.items() if share <= NEARLY)

    @property
    def used_up(self) -> tuple[str, ...]:
        return tuple(what for what, share in self.shares_left.items() if share <= 1e-9)

    def __str__(self) -> str:
        if self.epsilon_if_a_server_lies == 0:
            return self._spent
        return f"{self._spent}; {in_words(self.epsilon_if_a_server_lies, self.delta_if_a_server_lies)}"

    @property
    def _spent(self) -> str:
        delta = f"delta {self.delta_spent:.3g} of {self.cap.delta:g}"
        if self.rule == "rdp":
            left = max(0.0, self.rdp_capacity - self.rdp_spent)
            return (
                f"Renyi divergence {self.rdp_spent:.4g} of {max(0.0, self.rdp_capacity):.4g} spent, {left:.4g} left; "
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
            "nearly_used_up": list(self.nearly_used_up),
            "summary": str(self),
        }
        if self.rule == "rdp":
            body |= {"rdp_spent": self.rdp_spent, "rdp_capacity": max(0.0, self.rdp_capacity)}
        return body


def budget_of(policy: Policy, cap: Cap, spent: Cost) -> Budget:
    """As the ledger's filter counts it."""
    lying = (spent.epsilon_if_a_server_lies, spent.delta_if_a_server_lies)
    if policy.rule == "basic":
        return Budget(cap, spent.epsilon, spent.delta, "basic", 0.0, 0.0, *lying)
    taken = spent.hop_delta + spent.tail_delta + spent.overflow
    capacity = rdp_capacity(policy, cap, spent)
    return Budget(cap, epsilon_of(policy, cap, spent), taken, "rdp", spent.rdp, capacity, *lying)
