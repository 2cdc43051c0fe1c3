"""Charges against limits."""

from parley.privacy.filters import Cap, Charge, Cost
from parley.privacy.finite_precision import EXACT
from parley.privacy.mechanism import ROW
from tests.support.ledgers import EVENT

TOTAL, CAP = 2.0, Cap(20.0, 1e-3)
HALF = Charge("m" * 64, EVENT, ROW, EXACT, "pld", Cost(epsilon=0.5, delta=1e-6))
