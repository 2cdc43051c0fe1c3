"""The garbage collector of a process that serves for weeks: what was there at the start stays, the rest is looked at
seldom. A round makes thousands of small objects that reference counting frees: there are few cycles to look for.
"""

import gc

OBJECTS = 50_000
"""New ones between two looks at the youngest."""


def collect_seldom() -> None:
    """Once everything is set up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 20, 20)
