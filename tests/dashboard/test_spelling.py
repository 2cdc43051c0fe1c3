"""Figures as they are spelled, and curves that are thinned without losing an extreme."""

from parley.dashboard import spelling


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
