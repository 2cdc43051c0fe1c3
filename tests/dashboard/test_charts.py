"""Charts: axes that hold what they show."""

import pytest

from parley.dashboard import charts
from parley.dashboard.views import Chart, Line


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.33, 0.331), (0.0, 123456.0), (5.0, 5.0), (0.0, 1e-9), (-3.0, 4.0)]
)
def test_axes_hold_what_they_show(low: float, high: float) -> None:
    start, end = charts.nice_range(low, high)
    assert start <= low
    assert end >= high
    assert end - start < 4 * (high - low or 2 * abs(low))


def test_the_axis_of_ten_rounds_ends_at_ten() -> None:
    line = Line("loss", "main", tuple((float(each), 1.0 / each) for each in range(1, 11)))
    drawn = str(charts.line_chart(Chart("loss", "Loss", "", "", (line,), 1, 10)))
    across = drawn.split('class="across"')[1]
    assert "<span>10</span>" in across
    assert "<span>12</span>" not in across
