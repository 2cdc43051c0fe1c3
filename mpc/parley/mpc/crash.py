"""Labelled points right after (or before) something became durable, where a test can have the process die.

    PARLEY_CRASH_AT=aggregator.prepared:3    # kill -9 at the third time that this point is reached

Without the variable a point does nothing. Labels are ROLE.TRANSITION; whoever adds a durable transition adds its point.
"""

import os
import signal

VARIABLE = "PARLEY_CRASH_AT"


def _armed() -> dict[str, int]:
    label, _, count = os.environ.get(VARIABLE, "").partition(":")
    return {label: int(count or 1)} if label else {}


_left = _armed()


def point(label: str) -> None:
    """Die here, as by a power cut, if the environment says so."""
    if label in _left:
        _left[label] -= 1
        if _left[label] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
