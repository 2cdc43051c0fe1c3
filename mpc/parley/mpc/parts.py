"""What the noise of a released sum is made of: the servers' joint sample, and one of each server's own.

Everything is counted in units: the deviation of one sample of the law (parley.mpc.tables). Two ways are offered.

    semi-honest    one joint sample, which neither server knows, and of each server τ times a sample of its own
    malicious      no joint sample; of each server a whole one of its own

Against a coalition with one server that follows the protocol the joint sample and the other server's own one stay
hidden: 1 + τ² is what a claim counts. If that server did anything whatever, the other's own part is all that is left:
τ². What is released has 1 + 2τ². Under `malicious` the three are 1, 1 and 2. docs/noise-law.md § 1, docs/privacy.md.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from parley.mpc.errors import ConfigurationError

Security = Literal["semi-honest", "malicious"]
SHIFTS: dict[float, int | None] = {0.0: None, 0.25: 2, 0.5: 1, 1.0: 0}
"""τ -> the bits by which a server's own sample is shifted; none where there is no own part."""
OWN = tuple(SHIFTS)


@dataclass(frozen=True)
class NoiseParts:
    """Public; the same on both servers, at every party and at the coordinator."""

    security: Security
    own: float
    """τ: the deviation of each server's own part, over the joint sample's; 1 under `malicious`."""

    def __post_init__(self) -> None:
        if self.security not in get_args(Security):
            known = " or ".join(get_args(Security))
            raise ConfigurationError(f"security is {self.security!r}: this version knows {known}, upgrade for others")
        if self.own not in SHIFTS:
            raise ConfigurationError(f"own is {self.own!r}: use 0, 0.25, 0.5 or 1")
        if self.security == "malicious" and self.own != 1:
            raise ConfigurationError(
                f"own is {self.own:g} and security is malicious, where each server adds a whole sample of its own: "
                "make own 1"
            )

    @property
    def joint(self) -> bool:
        """Whether the two servers sample together."""
        return self.security == "semi-honest"

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


def usual_own(security: str) -> float:
    """τ where only the security is written."""
    return 1.0 if security == "malicious" else USUAL.own


def parts_of(security: str, own: float) -> NoiseParts:
    """From a document; what this version does not know is refused."""
    return NoiseParts(security, own)  # type: ignore[arg-type]
