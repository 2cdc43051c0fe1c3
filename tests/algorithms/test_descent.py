"""Gradient descent with momentum: what weight each release has in the model, which model is given out."""

import numpy as np
import pytest

from parley.algorithms.registry import build
from parley.algorithms.schedules import Output, Schedule
from parley.privacy.randomness import SystemRandomness
from tests.support.algorithms import SETTING, started


@pytest.mark.parametrize(
    ("name", "settings", "kept", "taken"),
    [
        ("dp-sgd", {"momentum": 0.9}, 0.9, 0.1),
        ("dp-sgd", {"momentum": 0.5, "decay": "linear"}, 0.5, 0.5),
        ("dp-sgd", {"momentum": 0.0, "decay": "linear"}, 0.0, 1.0),
        ("dp-gd", {"momentum": 0.9, "steps_taken": 30}, 0.9, 0.1),
        ("rrpsgd", {"momentum": 0.9, "batch": 100, "passes": 3.0}, 0.9, 0.1),
        ("ddp-srm", {"gamma": 0.25, "decay": "linear"}, 0.75, 1.0),
        # Divided by 1, whatever the second moment is: Adam's steps are its first.
        ("dp-adam", {"cap": 1e-300, "floor": 1.0}, 0.9, 0.1),
    ],
    ids=["sgd-0.9", "sgd-0.5", "sgd-0", "gd", "rrpsgd", "ddp-srm", "adam"],
)
def test_every_releases_weight_in_the_model_is_the_formulas(
    name: str, settings: dict[str, object], kept: float, taken: float
) -> None:
    """m_t = kept·m_{t−1} + taken·g_t from m_0 = 0: release t moves θ by −taken·Σ_{s ≥ t} η_s·kept^(s−t), no more."""
    algorithm = build(name, {"step": 0.25, "decay": "constant", **settings})
    plan = algorithm.plan(SETTING)
    rounds = plan.releases
    algorithm.begin(plan, np.zeros(rounds), 0.1, SystemRandomness())
    for index in range(rounds):  # release t is the t-th unit vector, so that θ's entries are the weights
        algorithm.tell(index, np.eye(rounds)[index])
    made = int(algorithm.state["rounds"][0]) if name == "rrpsgd" else rounds
    steps = Schedule(0.25, str(settings.get("decay", "constant")))
    eta = [steps.at(index, rounds) for index in range(made)]
    weights = [taken * sum(eta[s] * kept ** (s - t) for s in range(t, made)) for t in range(made)]
    np.testing.assert_allclose(-algorithm.theta[:made], weights, rtol=1e-12)
    np.testing.assert_array_equal(algorithm.theta[made:], 0.0)


def test_output_rules_average_and_draw() -> None:
    averaged, plan = started("dp-sgd", batch=100, passes=1.0, step=1.0, decay="constant", output=Output("average", 0.3))
    for index in range(plan.steps):
        averaged.tell(index, -np.ones(3))
    # Iterates 8, 9 and 10 of ten.
    np.testing.assert_allclose(averaged.result(), 9.0)
    drawn, plan = started("dp-sgd", batch=100, passes=1.0, step=1.0, decay="constant", output=Output("random"))
    for index in range(plan.steps):
        drawn.tell(index, -np.ones(3))
    assert drawn.result()[0] == drawn.chosen
    assert 0 <= drawn.chosen < plan.steps
