"""A manifest's table [noise]: how the two servers make the noise, and the lattice of data and noise.

[noise]
cover = "strips"
precision = "high"
fraction_bits = 24
security = "covert"            # or "semi-honest", "malicious"
own = 0.5
audit = "1/8"                  # only under covert, and what stands there where it is left out
"""

from dataclasses import dataclass
from typing import Any, get_args

from parley.federation.fields import Fields
from parley.mpc.errors import MpcError
from parley.mpc.parts import NoiseParts, parts_of
from parley.mpc.tables import Cover, Precision


@dataclass(frozen=True)
class Noise:
    """How the servers sample, and the lattice of data and noise."""

    cover: Cover
    precision: Precision
    fraction_bits: int
    parts: NoiseParts


def noise_from(fields: Fields) -> Noise:
    """The inverse of `noise_table`."""
    covers: tuple[Cover, ...] = get_args(Cover)
    precisions: tuple[Precision, ...] = get_args(Precision)
    noise = Noise(
        fields.choice("cover", covers),
        fields.choice("precision", precisions),
        fields.whole("fraction_bits", 1, 24),
        noise_parts(
            fields,
            fields.text("security"),
            fields.number("own", -1, 1) + 0.0,  # no -0.0 beside 0.0
            fields.text("audit") if fields.has("audit") else None,
        ),
    )
    fields.finish()
    return noise


def noise_table(cover: Cover, precision: Precision, fraction_bits: int, parts: NoiseParts) -> dict[str, Any]:
    """Every default spelled out; `audit` only where there is one."""
    return {
        "cover": cover,
        "precision": precision,
        "fraction_bits": fraction_bits,
        "security": parts.security,
        "own": parts.own,
        **({} if parts.audit is None else {"audit": parts.audit}),
    }


def noise_parts(fields: Fields, security: str, own: float, audit: str | None) -> NoiseParts:
    """What this version does not know, what contradicts itself and what never makes a number is refused by name."""
    try:
        parts = parts_of(security, own, audit)
    except MpcError as error:
        name, _, message = str(error).partition(" ")
        raise fields.refuse(name, message) from None
    if parts.audit_rate == 1:
        raise fields.refuse("audit", "is 1, and what was audited is thrown away: the run would never begin, use 1/2")
    return parts
