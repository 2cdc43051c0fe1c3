"""The sums of clipped gradients in NumPy, beyond what they share with the compiled ones (test_clip_sums.py)."""

import math

import numpy as np
import pytest

from parley.mpc import plain_clip_sums as plain
from parley.mpc.clip_sums import Way, builds, clip_sums

SMALLEST = np.finfo(np.float32).tiny
WAYS: list[Way] = [*builds(), "numpy"]


def test_denormals_count_as_zero_and_the_least_other_does_not() -> None:
    assert plain.flushed(np.array([1e-45, -1e-39, SMALLEST, -SMALLEST, 0], np.float32)).tolist() == [
        0, 0, SMALLEST, -SMALLEST, 0,
    ]  # fmt: skip
    assert math.isnan(plain.flushed(np.array([np.nan]))[0])
    found = plain.as_float(np.array([1e-39, np.nextafter(float(SMALLEST), 0), float(SMALLEST), 1e300, 0.1]))
    assert found.tolist() == [0, 0, SMALLEST, np.finfo(np.float32).max, np.float32(0.1)]


@pytest.mark.parametrize("d", [1, 16, 17, plain.BLOCK, plain.BLOCK + 1])
def test_lengths_are_those_of_the_rows_whatever_their_number_of_coordinates(d: int) -> None:
    rows = np.random.default_rng(d).normal(0, 1e30, (3, d)).astype(np.float32)
    wanted = [math.sqrt(math.fsum(float(each) ** 2 for each in row)) for row in rows]
    np.testing.assert_allclose(plain.length(rows), wanted, rtol=1e-13)


def test_rows_taken_together_or_apart_add_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = np.random.default_rng(2).normal(0, 1, (50, 30)).astype(np.float32)
    weights, totals = plain.Weights(1e4, 1.0, 0.0, 0.0), []
    for entries in (1, 100, 1 << 18):
        monkeypatch.setattr(plain, "ENTRIES", entries)
        total = np.zeros(30, np.int64)
        plain.clip_sums(fresh, None, np.ones(50, np.bool_), weights, 10_000, total)
        totals.append(total)
    assert totals[0].any()
    assert all((each == totals[0]).all() for each in totals)


def test_every_way_gives_the_same_integers_at_the_ends_of_float32_and_of_doubles() -> None:
    """Weights, steps and norms beyond what a manifest allows; entries that are denormal, infinite or no numbers."""
    rng = np.random.default_rng(1)
    odd = np.array([np.nan, np.inf, -np.inf, 3.4e38, 1e-45, 1.1754942e-38, SMALLEST, 0, -0.0], np.float32)
    seen = 0
    for _ in range(300):
        d, limit = int(rng.integers(1, 80)), int(2 ** rng.uniform(0, 22))
        with np.errstate(over="ignore", invalid="ignore"):
            fresh = (rng.normal(size=(4, d)) * 10.0 ** rng.uniform(-45, 38.4, (4, 1))).astype(np.float32)
            before = (fresh * (1 + 10.0 ** rng.uniform(-8, 1, (4, 1)))).astype(np.float32)
        hostile = rng.random(fresh.shape) < 0.01
        fresh[hostile] = rng.choice(odd, hostile.sum())
        first, second, present = 10.0 ** rng.uniform(-30, 30, 2), 10.0 ** rng.uniform(-60, 60, 3), rng.random(4) < 0.8
        two, totals = bool(rng.random() < 0.6), []
        for way in WAYS:
            total = np.zeros(d, np.int64)
            clip_sums(
                fresh, before if two else None, present, gradient_weight=first[0], gradient_norm=second[0],
                difference_weight=first[1] if two else 0.0, difference_norm=second[1] if two else 0.0, step=second[2],
                limit=limit, total=total, build=way,
            )  # fmt: skip
            totals.append(total)
        assert all((each == totals[0]).all() for each in totals)
        seen += bool(totals[0].any())
    assert seen > 100
