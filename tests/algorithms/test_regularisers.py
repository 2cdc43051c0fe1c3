"""Regularisers against their derivatives."""

import numpy as np
import pytest

from parley.algorithms.regularisers import Regulariser


@pytest.mark.parametrize("kind", ["nonconvex", "l2", "none"])
def test_a_regularisers_gradient_is_its_derivative(kind: str) -> None:
    penalty = Regulariser(kind, 0.0 if kind == "none" else 0.3)
    theta = np.array([0.5, -2.0, 0.0])
    for index in range(3):
        step = np.zeros(3)
        step[index] = 1e-6
        numeric = (penalty.value(theta + step) - penalty.value(theta - step)) / 2e-6
        assert penalty.gradient(theta)[index] == pytest.approx(numeric, abs=1e-8)
