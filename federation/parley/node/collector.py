"""What a process that serves for weeks does with its memory, once everything is set up.

A round makes thousands of small objects that reference counting frees: there are few cycles for the garbage collector
to look for. It makes and frees the same large arrays every time: the C library would give each back to the kernel and
take it again page by page, a quarter of server B's time in an opening of 62,000 numbers.
"""

import contextlib
import ctypes
import gc

OBJECTS = 50_000
"""New ones between two looks at the youngest."""
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Of mallopt(3)."""
ARENAS = 4
"""Heaps among which threads are spread; glibc takes eight per core, and after a flood of connections each of them keeps
what it had at its peak."""
KEPT_BYTES = 32 << 20
"""Free memory at the end of a heap, of which busy threads have one each, that is not given back."""
KEPT_FOR_AUDITS = 128 << 20
"""The same where noise is made under audit: a batch of 16,384 lanes holds all its frames, 50 megabytes, to its end."""
MAPPED_BYTES = 32 << 20
"""Arrays from here on are the kernel's business; glibc takes no larger limit."""


def settle() -> None:
    """What is there stays, and is looked at seldom; what is freed is kept for the next round."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 20, 20)
    with contextlib.suppress(OSError, AttributeError):  # another C library does as it likes
        library = ctypes.CDLL(None)
        library.mallopt(ARENA_MAX, ARENAS)
        library.mallopt(MMAP_THRESHOLD, MAPPED_BYTES)
        library.mallopt(TRIM_THRESHOLD, KEPT_BYTES)


def keep_freed(kept_bytes: int) -> None:
    """From now on as much as that, by a process that has settled."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(TRIM_THRESHOLD, kept_bytes)
