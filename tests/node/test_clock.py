"""How far off the clock may be, as the kernel says; where it does not say, that is not taken for good news."""

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from parley.node.clock import STATUS_UNSYNCHRONISED, _Timex, clock_error_seconds

TIME_ERROR = 5
"""What adjtimex returns where the clock is not synchronised."""


def kernel(result: int, error: int = 0, status: int = 0) -> Callable[..., Any]:
    """In place of the C library, whose one function fills in what the kernel would."""

    class Library:
        def adjtimex(self, pointer: Any) -> int:
            found = pointer._obj
            assert found.modes == 0  # anything else would set this machine's clock
            found.esterror, found.status = error, status
            return result

    return lambda *_, **__: Library()


@pytest.mark.parametrize(
    ("result", "error", "status", "said"),
    [
        (0, 1500, 0, 0.0015),
        (0, 0, 0, 0.0),
        (0, 16_000_000, 0x01, 16.0),
        (TIME_ERROR, 1500, STATUS_UNSYNCHRONISED, None),
        (0, 1500, STATUS_UNSYNCHRONISED | 0x01, None),
        (-1, 1500, 0, None),
    ],
)
def test_the_kernels_estimate_counts_where_a_time_service_keeps_the_clock(
    monkeypatch: pytest.MonkeyPatch, result: int, error: int, status: int, said: float | None
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", kernel(result, error, status))
    assert clock_error_seconds() == said


@pytest.mark.parametrize("failure", [OSError("no library"), AttributeError("adjtimex")])
def test_a_system_without_the_call_says_nothing(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def without(*_: Any, **__: Any) -> Any:
        raise failure

    monkeypatch.setattr(ctypes, "CDLL", without)
    assert clock_error_seconds() is None


def test_the_structure_lies_as_the_kernel_has_it_and_this_machine_answers() -> None:
    """struct timex on a 64-bit Linux: modes, offset, freq, maxerror, esterror, status; 208 bytes in all."""
    offsets = [getattr(_Timex, name).offset for name in ("modes", "offset", "freq", "esterror", "status")]
    assert offsets == [0, 8, 16, 32, 40]
    assert ctypes.sizeof(_Timex) >= 208
    found = clock_error_seconds()
    assert found is None or 0 <= found < 1e6
