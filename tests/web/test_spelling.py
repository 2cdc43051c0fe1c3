"""Figures as they are spelled, and curves that are thinned without losing an extreme."""

import pytest

from parley.web import spelling


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
    ("value", "said"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (0.0004, "0 s"),
        (0.25, "250 ms"),
        (1.0, "1.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 min 0 s"),
        (3599.9, "59 min 59 s"),
        (3600.0, "1 h 0 min"),
        (86_399.0, "23 h 59 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_a_duration_is_said_in_units_that_people_use(value: float | None, said: str) -> None:
    assert spelling.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (1_500_000, "1.5 MB"),
        (2e15, "2000 TB"),
    ],
)
def test_bytes_have_a_unit(value: float | None, said: str) -> None:
    assert spelling.size(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (0.12345, "0.123"), (-2.5, "−2.5"), (1e-5, "1e−5"), (12_345.6, "12,346")]
)
def test_a_figure_is_spelled_as_an_axis_has_it(value: float, said: str) -> None:
    assert spelling.number(value) == said


@pytest.mark.parametrize(("rounds", "end"), [(0, 4), (4, 4), (5, 8), (39, 40), (99, 100), (101, 101)])
def test_an_axis_of_rounds_ends_so_that_its_quarters_are_whole(rounds: int, end: float) -> None:
    assert spelling.axis_end(rounds) == end


@pytest.mark.parametrize("count", [0, 1, 2, 359, 360])
def test_few_points_are_left_alone(count: int) -> None:
    points = tuple((float(x), 1.0) for x in range(count))
    assert spelling.thin(points) == points


@pytest.mark.parametrize(("count", "most"), [(361, 360), (11, 10), (1000, 4), (9, 7)])
def test_no_more_points_than_asked_for(count: int, most: int) -> None:
    points = [(float(x), float(x % 3)) for x in range(count)]
    kept = spelling.thin(points, most)
    assert 2 < len(kept) <= most
    assert (kept[0], kept[-1]) == (points[0], points[-1])
