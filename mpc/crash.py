"""Labelled points at which a test may kill this process: between two durable steps, nowhere else do crashes differ.

    PARLEY_CRASH_AT=aggregator.prepared:3    # SIGKILL when that point is passed for the third time

Does nothing unless the variable is set, which only the kill harness does.
"""

import os
import signal

VARIABLE = "PARLEY_CRASH_AT"
_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count) if _count.isdigit() else 1


def point(name: str) -> None:
    """Kill this process if the variable names this point and it was passed often enough."""
    global _left
    if _name and name == _name:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
