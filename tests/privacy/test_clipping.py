"""Contributions are cut to their bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from parley.privacy.clipping import MomentumClip, clip_rows


@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-1e300, 1e300)),
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1),
)
def test_no_contribution_is_ever_longer_than_its_bound(
    gradients: np.ndarray, previous: np.ndarray, first: float, second: float, gamma: float
) -> None:
    clip = MomentumClip(first, second, gamma)
    for round_index in (0, 1):
        for row in clip.terms(round_index).of(gradients, previous):
            length = math.sqrt(math.fsum(float(x) ** 2 for x in row))
            assert length <= clip.contribution_bound(round_index)


def test_a_gradient_that_is_not_finite_contributes_zero_and_stays_present() -> None:
    rows = np.array([[np.nan, 1.0], [np.inf, 0.0], [3.0, 4.0]])
    clipped = clip_rows(rows, 1.0)
    assert np.all(clipped[:2] == 0)
    assert np.linalg.norm(clipped[2]) == pytest.approx(1.0)
    assert np.all(MomentumClip(1.0, 1.0, 0.5).terms(1).of(rows, np.zeros((3, 2)))[:2] == 0)


def test_clipping_leaves_short_rows_alone_and_survives_extreme_ones() -> None:
    rows = np.array([[0.3, 0.4], [0.0, 0.0], [1e308, 1e308], [5e-324, 0.0]])
    clipped = clip_rows(rows, 1.0)
    assert np.array_equal(clipped[[0, 1, 3]], rows[[0, 1, 3]])
    assert np.linalg.norm(clipped[2]) == pytest.approx(1.0)
