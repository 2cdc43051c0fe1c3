"""Charts: thinned without losing an extreme, axes that hold what they show."""

import pytest

from parley.dashboard import charts, spelling


def test_thinning_keeps_the_ends_and_the_extremes() -> None:
    points = [(float(x), float((x * 7919) % 1009)) for x in range(10_000)]
    points[6543] = (6543.0, 5000.0)
    kept = spelling.thin(points)
    assert len(kept) <= spelling.MOST_POINTS
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert (6543.0, 5000.0) in kept
    assert min(y for _, y in kept) == min(y for _, y in points)
    assert [x for x, _ in kept] == sorted({x for x, _ in kept})


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.33, 0.331), (0.0, 123456.0), (5.0, 5.0), (0.0, 1e-9), (-3.0, 4.0)]
)
def test_axes_hold_what_they_show(low: float, high: float) -> None:
    start, end = charts.nice_range(low, high)
    assert start <= low
    assert end >= high
    assert end - start < 4 * (high - low or 2 * abs(low))
