"""RRPSGD against its definition."""

import numpy as np
import pytest

from parley.algorithms.errors import AlgorithmError
from tests.support.algorithms import started


def test_rrpsgd_stops_after_its_random_round() -> None:
    algorithm, plan = started("rrpsgd", batch=100, passes=2.0, step=0.1)
    rounds = int(algorithm.state["rounds"][0])
    assert 1 <= rounds <= plan.steps
    for index in range(plan.steps):
        algorithm.tell(index, np.ones(3))
    np.testing.assert_allclose(algorithm.theta, -0.1 * rounds)
    assert not algorithm.finished(rounds - 1)
    assert algorithm.finished(rounds)
    assert plan.passes(1000, rounds) == pytest.approx(rounds * 100 / 1000)
    with pytest.raises(AlgorithmError, match="2/β"):
        started("rrpsgd", step=9.0)
