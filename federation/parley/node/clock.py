"""How far off this machine's clock may be, as its kernel tells."""

import ctypes

STATUS_UNSYNCHRONISED = 0x40


class _Timex(ctypes.Structure):
    """struct timex of adjtimex(2), with room for what follows the fields that are read."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock_error_seconds() -> float | None:
    """The kernel's estimate; None where no time service keeps the clock, or the system does not say."""
    try:
        timex = _Timex()  # modes is 0: nothing is set
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return None
    if state < 0 or timex.status & STATUS_UNSYNCHRONISED:
        return None
    return float(timex.esterror) / 1e6
