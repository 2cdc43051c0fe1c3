"""Recursive momentum against the paper: its steps, its parameters, what it asks."""

import math

import numpy as np
import pytest

from parley.privacy.clipping import MomentumClip
from tests.support.algorithms import started


def test_ddp_srm_follows_algorithm_2() -> None:
    """Two rounds by hand: v^1 = q + (1 − γ)·v^0, θ moved by the schedule."""
    algorithm, plan = started("ddp-srm", gamma=0.25, step=0.5, decay="constant", batch=10, passes=1.0)
    assert plan.clip == MomentumClip(1.0, 0.01, 0.25)
    assert plan.steps == round((1000 - 10) / 20)
    first, second = np.array([1.0, 0.0, -1.0]), np.array([0.1, 0.2, 0.3])
    assert len(algorithm.ask(0).points) == 1
    algorithm.tell(0, first)
    np.testing.assert_allclose(algorithm.theta, -0.5 * first)
    asked = algorithm.ask(1).points
    np.testing.assert_allclose(asked[0], -0.5 * first)
    np.testing.assert_allclose(asked[1], 0.0)
    algorithm.tell(1, second)
    np.testing.assert_allclose(algorithm.theta, -0.5 * first - 0.5 * (second + 0.75 * first))


def test_the_adaptive_step_is_algorithm_1_line_5() -> None:
    algorithm, _ = started("dp-srm", zeta=0.1, smoothness=2.0)
    algorithm.tell(0, np.array([3.0, 4.0, 0.0]))
    np.testing.assert_allclose(np.linalg.norm(algorithm.theta), 0.1 / 2.0)
    small, _ = started("dp-srm", zeta=0.1, smoothness=2.0)
    small.tell(0, np.array([0.003, 0.004, 0.0]))
    np.testing.assert_allclose(np.linalg.norm(small.theta), 0.005 / 4)


def test_theorem_5_2_sets_every_parameter() -> None:
    algorithm, plan = started("ddp-srm-theory")
    zeta = (0.25 * math.log(2) * 3 * math.log(1e5)) ** 0.25 / math.sqrt(1000 * 0.5)
    assert isinstance(plan.clip, MomentumClip)
    assert plan.clip.difference_norm == pytest.approx(zeta)
    assert plan.clip.gamma == pytest.approx(zeta)
    assert plan.batch == round(1 / zeta)
    assert plan.steps == round(1000 * 0.5 * math.sqrt(0.25 * math.log(2)) / math.sqrt(3 * math.log(1e5)))
    assert algorithm.releases == plan.steps + 1


@pytest.mark.parametrize("gamma", [0.4, 1.0])
def test_recursive_momentum_asks_at_as_many_points_as_parties_evaluate(gamma: float) -> None:
    """With γ = 1 the difference has weight zero: a party is asked at one point."""
    algorithm, plan = started("ddp-srm", gamma=gamma, batch=10)
    for index in range(3):
        assert len(algorithm.ask(index).points) == plan.clip.terms(index).points
        algorithm.tell(index, np.ones(3))
