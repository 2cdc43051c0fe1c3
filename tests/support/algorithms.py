"""Algorithms as tests start them."""

import numpy as np

from parley.algorithms.algorithm import Algorithm, Plan, Setting, build
from parley.privacy.randomness import SystemRandomness

SETTING = Setting(1000, 3, 0.5, 1e-5, 2.0)


def started(name: str, **parameters: object) -> tuple[Algorithm, Plan]:
    algorithm = build(name, dict(parameters))
    plan = algorithm.plan(SETTING)
    algorithm.begin(plan, np.zeros(3), 0.1, SystemRandomness())
    return algorithm, plan
