"""A step is chosen by noised losses."""

import numpy as np

from tests.support.algorithms import started


def test_loss_selection_takes_the_best_candidate_or_stays() -> None:
    algorithm, _ = started("dp-agd", candidates=3, largest_step=4.0, loss_scale=1.0)
    algorithm.tell(0, np.array([1.0, 0.0, 0.0]))
    asked = algorithm.ask(1)
    assert [float(point[0]) for point in asked.points] == [0.0, -4.0, -2.0, -1.0]
    algorithm.tell(1, np.array([0.5, -0.3, -0.1]))
    np.testing.assert_allclose(algorithm.theta, [-2.0, 0, 0])
    algorithm.tell(2, np.array([1.0, 0.0, 0.0]))
    algorithm.tell(3, np.array([0.5, 0.3, 0.1]))
    np.testing.assert_allclose(algorithm.theta, [-2.0, 0, 0])


def test_a_step_that_noise_explains_is_not_taken() -> None:
    """The public deviation of a loss difference is 0.1 here."""
    for promised, moved in ((-0.09, False), (-0.11, True)):
        algorithm, _ = started("dp-agd", candidates=1, largest_step=4.0, loss_scale=1.0)
        algorithm.tell(0, np.array([1.0, 0.0, 0.0]))
        algorithm.tell(1, np.array([promised]))
        assert bool(algorithm.theta.any()) == moved


def test_a_gradient_that_leads_nowhere_is_measured_again_and_averaged() -> None:
    """Lee and Kifer's adaptive budget: the search stays at its point and looks closer."""
    algorithm, _ = started("dp-agd", candidates=1, largest_step=4.0, loss_scale=1.0)
    algorithm.tell(0, np.array([1.0, 0.0, 0.0]))
    algorithm.tell(1, np.array([0.5]))
    algorithm.tell(2, np.array([0.0, 1.0, 0.0]))
    candidate = algorithm.ask(3).points[1]
    np.testing.assert_allclose(candidate / np.linalg.norm(candidate), [-(0.5**0.5), -(0.5**0.5), 0], atol=1e-12)
    algorithm.tell(3, np.array([-0.5]))
    np.testing.assert_allclose(algorithm.theta, candidate)
    algorithm.tell(4, np.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(algorithm.state["direction"], [0, 0, 1])
