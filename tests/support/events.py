"""Events as accountants read them."""

from parley.privacy.accountants import accountant
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.rdp_accountant import RdpAccountant
from parley.privacy.sampling import FixedSize, Poisson

A9A = 32561
DELTA = 1e-5
PLD = accountant("pld")
RDP = RdpAccountant()
LOWER = accountant("lower")


def wor(units: int, batch: int, rounds: int, noise: float = 1.0) -> Event:
    return Event((SampledGaussian(FixedSize(units, batch), noise, rounds),))


def poisson(units: int, batch: int, rounds: int, noise: float = 1.0, cap: int | None = None) -> Event:
    return Event((SampledGaussian(Poisson(units, batch, units if cap is None else cap), noise, rounds),))
