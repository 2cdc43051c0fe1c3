"""The one way to wait in tests: until something has happened, however long this machine takes.

The limit is there so that a test which waits for what never comes ends and says so. It is no statement about speed:
nothing else in tests compares what a clock says with an upper bound (tests/test_rules.py).
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
GIVE_UP_SECONDS = 240.0


def until(happened: Callable[[], T], message: str = "", pause_seconds: float = 0.02) -> T:
    """What it returned, as soon as that is true."""
    ends = time.monotonic() + GIVE_UP_SECONDS
    while not (found := happened()):
        if time.monotonic() > ends:
            raise AssertionError(f"not in {GIVE_UP_SECONDS:g} s {message}".rstrip())
        time.sleep(pause_seconds)
    return found
