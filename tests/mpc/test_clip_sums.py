"""The compiled sums of clipped gradients, in all builds of this machine: exact bounds, whatever is in a row."""

import ctypes
import itertools
import math
import platform
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.mpc import clip_sums as module
from parley.mpc.clip_sums import LARGEST_STEPS, Way, builds, clip_sums, encode_row
from parley.mpc.processor import BUILDS, processor_features
from parley.privacy.clipping import Terms

Singles = NDArray[np.float32]
Integers = NDArray[np.int64]

ONE = Terms(0.0, 1.0, 1.0, 1.0)
TWO = Terms(0.8, 0.1, 0.2, 1.0)
FINEST = LARGEST_STEPS - 1


WAYS: list[Way] = [*builds(), "numpy"]


@pytest.fixture(params=WAYS)
def build(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


def test_this_machine_runs_the_portable_build_and_whatever_its_processor_admits() -> None:
    features = processor_features()
    assert builds() == [each for each, needs in BUILDS.items() if features >= needs]
    assert builds()[-1] == "portable"


def sums(
    terms: Terms,
    fresh: Singles,
    before: Singles | None,
    limit: int,
    build: Way | None = None,
    present: NDArray[np.bool_] | None = None,
) -> Integers:
    """Of rows whose declared bound is `limit` lattice steps."""
    total = np.zeros(fresh.shape[1], np.int64)
    clip_sums(
        fresh, before, np.ones(len(fresh), np.bool_) if present is None else present,
        gradient_weight=terms.gradient_weight, gradient_norm=terms.gradient_norm,
        difference_weight=terms.difference_weight, difference_norm=terms.difference_norm if before is not None else 0.0,
        step=terms.bound / limit, limit=limit, total=total, build=build,
    )  # fmt: skip
    return total


def rows(rng: np.random.Generator, count: int, d: int, size: float = 1.0, near: float = 0.1) -> tuple[Singles, Singles]:
    fresh = rng.normal(0, size, (count, d))
    return fresh.astype(np.float32), (fresh + rng.normal(0, size * near, (count, d))).astype(np.float32)


def squared(integers: Integers | NDArray[np.int32]) -> int:
    return sum(int(each) ** 2 for each in integers)


@pytest.mark.parametrize("terms", [ONE, TWO])
@pytest.mark.parametrize(("count", "d"), [(1, 1), (3, 15), (2, 16), (5, 33), (300, 70), (3, 70_001)])
def test_sums_are_those_of_the_clipped_terms(terms: Terms, count: int, d: int, build: Way) -> None:
    """Against float64, to the half step of rounding and the float32 in which a row is weighed."""
    fresh, before = rows(np.random.default_rng(d), count, d)
    two = before if terms.points == 2 else None
    found = sums(terms, fresh, two, FINEST, build)
    wanted = terms.of(fresh.astype(np.float64), before.astype(np.float64)).sum(axis=0) * FINEST / terms.bound
    # What rounding may add to a row's length is taken off it beforehand.
    shortened = math.sqrt(d) / 2 + FINEST * 2.0**-20
    assert np.abs(found - wanted).max() <= count * (1 + shortened * np.abs(wanted).max() / FINEST)


@pytest.mark.parametrize("terms", [ONE, TWO])
def test_all_builds_give_the_same_integers(terms: Terms) -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        d, limit = int(rng.integers(1, 3000)), int(2 ** rng.uniform(1, 22))
        fresh, before = rows(rng, 5, d, 10.0 ** rng.uniform(-30, 30), 10.0 ** rng.uniform(-7, 1))
        hostile = rng.random(fresh.shape) < 1e-3
        fresh[hostile] = rng.choice(np.array([np.nan, np.inf, -np.inf, 3e38, 1e-42, 0.0], np.float32), hostile.sum())
        answers = [sums(terms, fresh, before if terms.points == 2 else None, limit, each) for each in WAYS]
        assert all((each == answers[0]).all() for each in answers)


# ---------------------------------------------------------------- the bound, in Python's integers


@pytest.mark.parametrize("terms", [ONE, TWO])
def test_no_row_is_longer_than_the_limit_whatever_is_in_it(terms: Terms, build: Way) -> None:
    rng = np.random.default_rng(11)
    largest = 0.0
    for trial in range(400):
        d = int(rng.integers(1, 70)) if trial % 4 else int(rng.integers(1000, 5000))
        limit = int(2 ** rng.uniform(0, 22)) if trial % 3 else FINEST
        fresh, before = rows(rng, 1, d, 10.0 ** rng.uniform(-44, 38), 10.0 ** rng.uniform(-8, 2))
        if trial % 5 == 0:
            place = rng.integers(d)
            fresh[0, place] = rng.choice(np.array([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 0.0], np.float32))
        if trial % 7 == 0:
            fresh[:] = rng.choice(np.array([1e-45, 1e-38, 1.0, 3.4e38], np.float32))
        found = sums(terms, fresh, before if terms.points == 2 else None, limit, build)
        assert squared(found) <= limit * limit
        if not np.isfinite(fresh).all():
            assert not found.any()
        largest = max(largest, math.sqrt(squared(found)) / limit)
    assert largest > 1 - 1e-4


@pytest.mark.parametrize("d", [1, 2, 16, 1000, 40_000])
@pytest.mark.parametrize("limit", [1, 2, 7, 100, 5000, FINEST])
def test_long_rows_are_cut_to_little_less_than_the_limit(limit: int, d: int, build: Way) -> None:
    """Of one large entry, on coarse lattices too; and of equal ones, where the lattice is fine."""
    single = np.zeros((1, d), np.float32)
    single[0, d // 2] = -1e30
    found = sums(ONE, single, None, limit, build)
    rounding = math.sqrt(d) / 2
    lost = rounding + 0.5 if rounding * 16 <= limit else 1.0
    assert limit >= -found[d // 2] >= limit * (1 - 2.0**-20) - lost
    assert np.abs(found).sum() == -found[d // 2]
    if limit == FINEST:
        length = math.sqrt(squared(sums(ONE, np.full((1, d), 1e20, np.float32), None, limit, build)))
        assert limit >= length >= limit * (1 - 2.0**-20) - 2 * rounding


def test_no_long_row_is_lost_to_what_rounding_adds(build: Way) -> None:
    """A row that came out longer than the limit would add nothing."""
    rng = np.random.default_rng(13)
    for _ in range(1500):
        fresh = rng.uniform(20, 50, (1, int(rng.integers(1, 4)))).astype(np.float32)
        before = fresh * np.float32(1 - 10.0 ** rng.uniform(-2, 0))  # the difference points where the gradient does
        assert squared(sums(TWO, fresh, before, FINEST, build)) > (FINEST - 8) ** 2


def test_short_rows_are_rounded_to_the_nearest(build: Way) -> None:
    row, total = np.array([[0.6, -0.6, 1.4, 2.5, -3.5, 0.5]], np.float32), np.zeros(6, np.int64)
    one = np.ones(1, np.bool_)
    clip_sums(row, None, one, gradient_weight=1.0, gradient_norm=99.0, step=1.0, limit=99, total=total, build=build)
    assert total.tolist() == [1, -1, 1, 2, -4, 0]


@pytest.mark.parametrize(("power", "off"), [*itertools.product((62, 63, 64), (-1, 0, 1, 17)), (67, 0)])
def test_sums_of_squares_around_the_ends_of_a_word(power: int, off: int, build: Way) -> None:
    """Entries of 2^22, whose squares are 2^44: so many that 63 or 64 bits would just wrap, or just not, and
    at 2^67 each of eight lanes would."""
    d = (1 << (power - 44)) + off
    row = np.full(d, 1e30, np.float32)
    row[::2] = -1e30
    whole, squares = encode_row(row, None, (1.0, 0.0), nearest=True, limit=FINEST, build=build)
    assert squares == d << 44
    assert (np.abs(whole) == LARGEST_STEPS).all()


@pytest.mark.parametrize("rest", [0, 1, 2, 300])
@pytest.mark.parametrize("count", [1 << 19, 1 << 20, 1 << 21])
def test_a_sum_of_squares_that_comes_round_to_a_small_number_is_no_short_row(count: int, rest: int, build: Way) -> None:
    """What is not a number is cut at 2^22, and never shortened: here 2^63, 2^64 and 2^65, and a little more."""
    row = np.full((2, count + rest), np.nan, np.float32)
    row[:, count:] = 1 / FINEST
    assert not sums(ONE, row, None, FINEST, build).any()
    assert not sums(TWO, row, np.zeros_like(row), FINEST, build).any()


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("d", [1, 15, 16, 31, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, 70_003])
def test_a_row_is_encoded_and_squared_exactly(d: int, nearest: bool, build: Way) -> None:
    """Under weights that no clip would give: against float32's own arithmetic, and squares in Python's integers."""
    rng = np.random.default_rng(d)
    fresh, before = rows(rng, 1, d, 10.0 ** rng.uniform(-3, 3), 1e-3)
    first, second, limit = np.float32(3e4), np.float32(-1.7e5), int(rng.integers(1, LARGEST_STEPS))
    whole, squares = encode_row(
        fresh[0], before[0], (float(first), float(second)), nearest=nearest, limit=limit, build=build
    )
    wanted = np.clip(first * fresh[0] + second * (fresh[0] - before[0]), -limit - 1, limit + 1)
    assert (whole == (np.rint(wanted) if nearest else np.trunc(wanted))).all()
    assert squares == squared(whole)


# ---------------------------------------------------------------- rows beside each other


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3.4e38])
def test_a_row_that_cannot_be_counted_changes_no_other(bad: float, build: Way) -> None:
    """3.4e38 is finite, and its difference with -3.4e38 is not."""
    fresh, before = rows(np.random.default_rng(5), 6, 50)
    without = sums(TWO, fresh, before, FINEST, build, np.arange(6) != 2)
    fresh[2, 17], before[2, 17] = bad, -3.4e38
    assert (sums(TWO, fresh, before, FINEST, build) == without).all()
    assert without.any()


def test_only_present_rows_are_in_the_sum(build: Way) -> None:
    fresh, before = rows(np.random.default_rng(6), 9, 40)
    present = np.arange(9) % 3 != 1
    found = sums(TWO, fresh, before, FINEST, build, present)
    each = [sums(TWO, fresh[i : i + 1], before[i : i + 1], FINEST, build) for i in np.flatnonzero(present)]
    assert (found == np.sum(each, axis=0)).all()
    assert not sums(TWO, fresh, before, FINEST, build, np.zeros(9, np.bool_)).any()


def test_a_thousand_rows_of_one_sign_do_not_wrap(build: Way) -> None:
    """Their sum passes 32 bits twice over."""
    one = sums(ONE, np.full((1, 1), 7.0, np.float32), None, FINEST, build)
    assert one[0] > FINEST - 4
    assert sums(ONE, np.full((1027, 1), 7.0, np.float32), None, FINEST, build)[0] == 1027 * one[0]


def test_sums_are_added_to_what_is_there(build: Way) -> None:
    row, total = np.ones((1, 3), np.float32), np.full(3, 1 << 60, np.int64)
    arguments: dict[str, Any] = {"gradient_weight": 1.0, "gradient_norm": 9.0, "step": 0.5, "limit": 100}
    clip_sums(row, None, np.ones(1, np.bool_), **arguments, total=total, build=build)
    assert (total == (1 << 60) + 2).all()


def test_no_rows_add_nothing(build: Way) -> None:
    assert not sums(ONE, np.zeros((0, 5), np.float32), None, 10, build).any()


def test_denormals_count_as_zero(build: Way) -> None:
    """So that no row takes longer for them: on a lattice so fine that the largest would be four steps."""
    small = Terms(0.0, 1.0, 1.0, 1e-32)
    found = sums(small, np.array([[1e-37, 1.1e-38, -1.1e-38, 2e-37]], np.float32), None, FINEST, build)
    assert found.tolist() == [34, 0, 0, 68]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors name the directions otherwise")
@pytest.mark.parametrize("direction", [0x400, 0x800, 0xC00])
@pytest.mark.parametrize("build", builds())  # NumPy rounds as its caller does
def test_how_the_caller_rounds_is_not_how_integers_are_made_and_stays_as_it_was(direction: int, build: Way) -> None:
    fresh, before = rows(np.random.default_rng(8), 4, 100)
    wanted, c = sums(TWO, fresh, before, FINEST, build), ctypes.CDLL(None)
    try:
        c.fesetround(direction)
        found = sums(TWO, fresh, before, FINEST, build)
        kept = np.float64(1.0) + np.float64(2.0**-60), np.float64(-1.0) - np.float64(2.0**-60)
    finally:
        c.fesetround(0)
    assert (found == wanted).all()
    assert kept == {0x400: (1.0, -1 - 2.0**-52), 0x800: (1 + 2.0**-52, -1.0), 0xC00: (1.0, -1.0)}[direction]


# ---------------------------------------------------------------- what is refused


def test_shapes_and_numbers_that_are_none_are_refused(build: Way) -> None:
    good, here, total = np.zeros((2, 3), np.float32), np.ones(2, np.bool_), np.zeros(3, np.int64)
    right: dict[str, Any] = {"gradient_weight": 1.0, "gradient_norm": 1.0, "step": 0.1, "limit": 10, "total": total}

    def refused(match: str, fresh: Any = good, before: Any = None, present: Any = here, **changed: Any) -> None:
        with pytest.raises(ValueError, match=match):
            clip_sums(fresh, before, present, **{**right, **changed}, build=build)

    refused("gradients: need contiguous float32", fresh=np.zeros((2, 3)))
    refused("gradients: need contiguous float32", fresh=np.zeros((2, 6), np.float32)[:, ::2])
    refused("coordinates", fresh=np.zeros((2, 0), np.float32))
    refused("present: need", present=np.ones(3, np.bool_))
    refused("total: need", total=np.zeros(2, np.int64))
    refused("total: need", total=np.zeros(3))
    refused("change fraction_bits", limit=LARGEST_STEPS)
    refused("change fraction_bits", limit=0)
    for number in (0.0, -1.0, np.nan):
        refused("above zero", step=number)
        refused("above zero", gradient_norm=number)
    refused("above zero", gradient_weight=-1.0)
    refused("not finite", gradient_norm=np.inf)
    refused("not finite", gradient_weight=1e200, step=1e-200)
    refused("come with a weight", before=good)
    refused("come with a weight", before=good, difference_weight=1.0)
    refused("come with a weight", difference_weight=1.0, difference_norm=1.0)
    refused("the point before: need", before=good[:1], difference_weight=1.0, difference_norm=1.0)
    assert not total.any()


def test_a_machine_that_nothing_was_compiled_for_takes_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, before = rows(np.random.default_rng(9), 5, 70)
    wanted = sums(TWO, fresh, before, FINEST)
    monkeypatch.setattr(module, "_library", lambda build: None)
    assert (sums(TWO, fresh, before, FINEST) == wanted).all()
    with pytest.raises(ValueError, match="no build avx2"):
        sums(TWO, fresh, before, FINEST, "avx2")
