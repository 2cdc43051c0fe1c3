"""How many fits of the same records this process has shown, and what all of them together cost.

One fit's (ε, δ) is of one fit. Whoever looks at several models of the same people, or at figures on them, and passes
them on, has spent the sum; a card that names one fit alone would hide it. Other processes are not seen from here.
"""

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Total:
    """Of all fits of one set of records, by basic composition: an upper bound."""

    fits: int = 0
    epsilon: float = 0.0
    delta: float = 0.0


_LOCK = threading.Lock()
_TOTALS: dict[bytes, Total] = {}


def shown(records: bytes, epsilon: float, delta: float, fits: int = 1) -> Total:
    """Count `fits` more of the records with this digest, each at (ε, δ)."""
    with _LOCK:
        before = _TOTALS.get(records, Total())
        after = Total(before.fits + fits, before.epsilon + fits * epsilon, min(1.0, before.delta + fits * delta))
        _TOTALS[records] = after
    return after


def total(records: bytes) -> Total:
    """So far."""
    with _LOCK:
        return _TOTALS.get(records, Total())
