"""Algorithms as tests start them."""

import numpy as np

from parley.algorithms.algorithm import Algorithm, Plan, Setting
from parley.algorithms.registry import build
from parley.privacy.randomness import SystemRandomness

SETTING = Setting(records=1000, dimension=3, epsilon=0.5, delta=1e-5, feature_bound=2.0)


def started(name: str, **parameters: object) -> tuple[Algorithm, Plan]:
    algorithm = build(name, dict(parameters))
    plan = algorithm.plan(SETTING)
    algorithm.begin(plan, np.zeros(3), 0.1, SystemRandomness())
    return algorithm, plan
