"""The table of what each algorithm asks in each round."""

from dataclasses import replace

import numpy as np
import pytest

from parley.algorithms.algorithm import Setting
from parley.algorithms.registry import build, known
from parley.federation.kinds import PROGRAMMES, kind_of
from parley.privacy.randomness import SystemRandomness

LINEAR = Setting(records=1000, dimension=4, epsilon=0.5, delta=1e-5, feature_bound=2.0, columns=4, intercept=True)
PERCEPTRON = Setting(
    records=1000,
    dimension=50,
    epsilon=0.5,
    delta=1e-5,
    feature_bound=2.0,
    model="perceptron",
    columns=4,
    intercept=True,
)


NUMBERS = replace(LINEAR, model="linear", target_bound=2.0)
FEATURES = replace(LINEAR, normalised=True)
MODULE = replace(PERCEPTRON, model="torch:hospital_models.nets:build")


@pytest.mark.parametrize(
    "setting",
    [LINEAR, NUMBERS, PERCEPTRON, FEATURES, MODULE],
    ids=["linear", "numbers", "perceptron", "features", "module"],
)
@pytest.mark.parametrize("name", sorted(known()))
def test_the_table_of_kinds_has_what_each_algorithm_asks_in_each_round_and_nothing_else(
    name: str, setting: Setting
) -> None:
    """By it a party refuses all else; an algorithm that is not in it could not run."""
    algorithm = build(name, {})
    plan = algorithm.plan(setting)
    algorithm.begin(plan, np.zeros(setting.dimension), 0.1, SystemRandomness())
    asked = set()
    for index in range(plan.releases):
        kind = algorithm.ask(index).kind
        assert kind == kind_of(name, plan.releases, index)
        asked.add(kind)
        lengths = {"norms": 24, "framed norms": 24, "losses": len(algorithm.ask(index).points) - 1}
        algorithm.tell(index, np.full(lengths.get(kind, setting.dimension), 1e-3))
    assert asked == set(algorithm.questions())
    assert set(PROGRAMMES) == set(known())


def test_a_run_of_another_length_than_the_algorithm_has_is_asked_nothing() -> None:
    assert kind_of("auto", 201, 200) == "gradient"
    assert kind_of("auto", 224, 200) == "framed gradient"
    assert kind_of("auto", 226, 16) == "framed norms"
    assert kind_of("auto", 216, 200) is None  # what `auto` was before
    assert kind_of("auto", 207, 7) == "framed gradient"
    assert kind_of("auto", 302, 1) == "norms"
    assert kind_of("auto", 302, 2) == "gradient"
    assert kind_of("auto", 202, 0) is None
    assert kind_of("out-sgd", 1, 0) == "solution"
    assert kind_of("out-sgd", 2, 1) is None
    assert kind_of("objective-perturbation", 1, 0) is None
