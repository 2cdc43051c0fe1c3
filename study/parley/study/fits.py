"""How many fits of the same records this process has shown, and what all of them together cost.

One fit's (ε, δ) is of one fit. Whoever looks at several models of the same people, or at figures on them, and passes
them on, has spent the sum; a card that names one fit alone would hide it. Other processes are not seen from here.
"""

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Total:
    """Of all fits of one set of records: what was shown at once by the accountant, one after the other added up."""

    fits: int = 0
    epsilon: float = 0.0
    delta: float = 0.0


_LOCK = threading.Lock()
_TOTALS: dict[bytes, Total] = {}
_MADE_UP: set[bytes] = set()
"""Digests of tables that no record has a part in."""


def note_made_up(records: bytes) -> None:
    """This process has made these records up: whatever is tried on them costs nobody anything."""
    with _LOCK:
        _MADE_UP.add(records)


def is_made_up(records: bytes) -> bool:
    """By content: one cell that was changed since makes other records of them."""
    with _LOCK:
        return records in _MADE_UP


def shown(records: bytes, epsilon: float, delta: float, fits: int = 1) -> Total:
    """Count `fits` more of the records with this digest, each at (ε, δ)."""
    return shown_together(records, fits * epsilon, fits * delta, fits)


def shown_together(records: bytes, epsilon: float, delta: float, fits: int) -> Total:
    """Count `fits` more, which cost (ε, δ) all together."""
    with _LOCK:
        before = _TOTALS.get(records, Total())
        after = Total(before.fits + fits, before.epsilon + epsilon, min(1.0, before.delta + delta))
        _TOTALS[records] = after
    return after


def total(records: bytes) -> Total:
    """So far."""
    with _LOCK:
        return _TOTALS.get(records, Total())
