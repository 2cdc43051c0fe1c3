"""Charts: axes that hold what they show."""

import pytest

from parley.dashboard import charts


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.33, 0.331), (0.0, 123456.0), (5.0, 5.0), (0.0, 1e-9), (-3.0, 4.0)]
)
def test_axes_hold_what_they_show(low: float, high: float) -> None:
    start, end = charts.nice_range(low, high)
    assert start <= low
    assert end >= high
    assert end - start < 4 * (high - low or 2 * abs(low))
