"""What the loops in C assume is checked before they run; what they set in the processor is set back."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.mpc import waves

SIZES = waves.Sizes(8, 8, 12, 12, 1, 2)
BORDER = np.arange(12) % 8
TABLES = [np.full(shape, 0.1, np.float32) for shape in SIZES.tables()]


def scatter(**changes: Any) -> NDArray[np.float32]:
    build = waves.builds()[0]
    given: dict[str, Any] = {
        "planes": np.ones((3, 8, 8), np.float32), "sizes": SIZES, "above": BORDER, "left": BORDER, "tables": TABLES,
    }  # fmt: skip
    return waves.scatter(**{**given, **changes}, build=build)


def test_shapes_follow_from_the_sizes() -> None:
    assert scatter().shape == (3, 3, 4, 4)
    assert np.isfinite(scatter()).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"planes": np.ones((3, 8, 9), np.float32)},
        {"planes": np.ones((3, 8, 8))},
        {"planes": np.ones((3, 16, 8), np.float32)[:, ::2]},
        {"above": BORDER + 1},
        {"left": BORDER - 1},
        {"above": BORDER[:-1]},
        {"left": BORDER.astype(np.int32)},
        {"tables": TABLES[:-1]},
        {"tables": [*TABLES[:-1], TABLES[-1][:1]]},
        {"sizes": replace(SIZES, padded_height=13)},
        {"sizes": replace(SIZES, scales=2)},
        {"sizes": replace(SIZES, height=9)},
    ],
)
def test_what_does_not_fit_is_not_run(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"need contiguous|a border|tables|a padded side"):
        scatter(**changes)


def test_a_build_that_this_machine_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "_library", lambda build: None)
    with pytest.raises(ValueError, match="no build avx2"):
        waves.scatter(np.ones((3, 8, 8), np.float32), SIZES, BORDER, BORDER, TABLES, "avx2")


def test_small_numbers_are_numbers_again_afterwards() -> None:
    for build in waves.builds():
        waves.scatter(np.full((1, 8, 8), 1e-40, np.float32), SIZES, BORDER, BORDER, TABLES, build)
        small = np.array([1e-310]) * 0.5
        assert 0 < small[0] < 1e-300
        assert math.ldexp(1.0, -1070) > 0
