"""What the noise of a released sum is made of: the servers' joint sample, and one of each server's own.

Everything is counted in units: the deviation of one sample of the law (parley.mpc.tables). Three ways are offered.

    semi-honest    one joint sample, which neither server knows, and of each server τ times a sample of its own
    covert         the same, and each server secretly audits a share p of the batches that the other has a hand in
    malicious      no joint sample; of each server a whole one of its own

An audit protects no round: the figures of `covert` are those of `semi-honest`, and who spoils batch after batch is
found out, with a proof.

Against a coalition with one server that follows the protocol the joint sample and the other server's own one stay
hidden: 1 + τ² is what a claim counts. If that server did anything whatever, the other's own part is all that is left:
τ². What is released has 1 + 2τ². Under `malicious` the three are 1, 1 and 2. docs/noise-law.md § 1, docs/privacy.md.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from parley.mpc.errors import ConfigurationError

Security = Literal["semi-honest", "covert", "malicious"]
SHIFTS: dict[float, int | None] = {0.0: None, 0.25: 2, 0.5: 1, 1.0: 0}
"""τ -> the bits by which a server's own sample is shifted; none where there is no own part."""
OWN = tuple(SHIFTS)
AUDITS: dict[str, Fraction] = {each: Fraction(each) for each in ("1/16", "1/8", "1/4", "1/2", "1")}
"""p as documents spell it -> the share of all batches that a server audits under `covert`. All of them: for tests."""
USUAL_AUDIT = "1/8"


@dataclass(frozen=True)
class NoiseParts:
    """Public; the same on both servers, at every party and at the coordinator."""

    security: Security
    own: float
    """τ: the deviation of each server's own part, over the joint sample's; 1 under `malicious`."""
    audit: str | None = None
    """p, as documents spell it; under `covert` only."""

    def __post_init__(self) -> None:
        if self.security not in get_args(Security):
            *others, last = get_args(Security)
            known = f"{', '.join(others)} or {last}"
            raise ConfigurationError(f"security is {self.security!r}: this version knows {known}, upgrade for others")
        if self.own not in SHIFTS:
            raise ConfigurationError(f"own is {self.own!r}: use 0, 0.25, 0.5 or 1")
        if self.security == "malicious" and self.own != 1:
            raise ConfigurationError(
                f"own is {self.own:g} and security is malicious, where each server adds a whole sample of its own: "
                "make own 1"
            )
        if self.security == "covert" and self.own == 0:
            raise ConfigurationError(
                "own is 0 and security is covert, where the own part is all that is left of a spoiled batch: use 0.25, "
                "0.5 or 1"
            )
        if self.security == "covert" and self.audit not in AUDITS:
            raise ConfigurationError(f"audit is {self.audit!r}: use 1/16, 1/8, 1/4 or 1/2")
        if self.security != "covert" and self.audit is not None:
            raise ConfigurationError(
                f"audit is {self.audit!r} and security is {self.security}, which audits nothing: leave audit out, or "
                "take covert"
            )

    @property
    def joint(self) -> bool:
        """Whether the two servers sample together."""
        return self.security != "malicious"

    @property
    def audit_rate(self) -> Fraction:
        """p: 0 where nothing is audited."""
        return Fraction(0) if self.audit is None else AUDITS[self.audit]

    @property
    def audits(self) -> str:
        """What they are worth, for claims, pages and reports; empty where nothing is audited."""
        return "" if self.audit is None else worth_of_audits(self.audit)

    @property
    def with_more_of_its_own(self) -> "list[NoiseParts]":
        """The same with every own part that there is, the least first: what a bound on ε₂ chooses from."""
        return [replace(self, own=own) for own in OWN if own > 0] if self.joint else [self]

    @property
    def shift(self) -> int | None:
        """Of a server's own sample."""
        return SHIFTS[self.own]

    @property
    def counted(self) -> float:
        """The variance that a claim may count: joint, and the own part of a server that is not in the coalition."""
        return self.joint + self.own**2

    @property
    def released(self) -> float:
        """The variance of what is opened."""
        return self.joint + 2 * self.own**2

    @property
    def excess(self) -> float:
        """The deviation that is released over the one that is counted."""
        return math.sqrt(self.released / self.counted)

    @property
    def left_by_a_liar(self) -> float:
        """The deviation that is left if one server does anything whatever, over the one that is counted."""
        return self.own / math.sqrt(self.counted)

    @property
    def samples(self) -> int:
        """Of the law per coordinate, as the finite precision of a claim counts them."""
        return self.joint + (self.own > 0)

    def largest(self, sample: int) -> int:
        """The most that the noise of one coordinate can be, if one sample is at most `sample`."""
        return sample * self.joint + (0 if self.shift is None else 2 * ((sample >> self.shift) + 1))


JOINT = NoiseParts("semi-honest", 0.0)
"""The papers' noise: one joint sample and nothing else."""


USUAL = NoiseParts("semi-honest", 0.5)
"""Where nothing else is written."""


def worth_of_audits(audit: str) -> str:
    """What audits at this rate promise, and all of it."""
    return (
        "The aggregators audit each other in secret, which protects no single round: k spoiled batches, over all runs "
        f"together, stay unseen with probability at most ({1 - AUDITS[audit]})^k; one spoiled batch bares every round "
        "that draws on it, down to the own noise."
    )


def usual_own(security: str) -> float:
    """τ where only the security is written."""
    return 1.0 if security == "malicious" else USUAL.own


def parts_of(security: str, own: float, audit: str | None = None) -> NoiseParts:
    """From a document; what this version does not know is refused, and `covert` audits at the usual rate."""
    if security == "covert" and audit is None:
        audit = USUAL_AUDIT
    return NoiseParts(security, own, audit)  # type: ignore[arg-type]
