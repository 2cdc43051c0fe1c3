"""A small ledger, and charges that fit it."""

from pathlib import Path

from parley.privacy.event import Event, SampledGaussian
from parley.privacy.filters import Cap, Charge, Cost, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import EndProof, Ledger
from parley.privacy.mechanism import ROW, Unit
from parley.privacy.sampling import FixedSize

CAP = Cap(1.0, 1e-5)
EVENT = Event((SampledGaussian(FixedSize(1000, 50), 4.0, 21),))
BASIC = Charge("m" * 64, EVENT, ROW, EXACT, "pld", Cost(epsilon=0.3, delta=1e-6))
BY_RDP = Charge("m" * 64, EVENT, ROW, EXACT, "rdp at order 16", Cost(rdp=0.105), ((21, 0.005),))


def accepted(proof: EndProof) -> None:
    """A check for tests: every proof is good."""


def rows(count: int, start: int = 0) -> list[bytes]:
    return [f"row {index}".encode() for index in range(start, start + count)]


def new(path: Path, policy: Policy | None = None, unit: Unit = ROW) -> Ledger:
    ledger = Ledger.create(path, policy or Policy())
    ledger.register("ward", unit, CAP, ledger.identity(rows(1000)))
    return ledger
