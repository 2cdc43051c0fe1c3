"""The three recipes of `auto`, and the public facts by which a run follows one of them.

- `tables`: columns as an institution has them (parley.algorithms.auto says how).
- `features`: classes, from rows that a public transform has normalised. Such rows part their classes by margins of ten
  and more, so that noise may move a score by 2 and changes few answers: the whole way Ση·C follows, and with it the
  step. The clip is a small part of a row's length: it binds records that are not classified yet, and the others need
  none. No heavy ball: clipped gradients do not shrink on the way, and a momentum that goes on when they have turned
  costs a fifth of the errors.
- `networks`, whose curvature nobody knows: all records together move the model by no more than its own length at the
  start in the first round, η·C = |θ_0|, and less in each that follows. Noise may move it by `NOISE_REACH` times that
  length in the whole run, which binds where records are few or ε is small.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.algorithms.algorithm import Setting
from parley.algorithms.errors import AlgorithmError
from parley.algorithms.sums import norm

Floats = NDArray[np.float64]

DECAY = math.sqrt(4 / 3)
"""By which the noise of steps that fall to zero is longer than that of as many equal ones of the same sum."""
NOISE_REACH = 2.5
"""Times |θ_0|: how far noise may move a network."""
SMALLEST_START = 0.01
"""Of a network's parameter, where all start at about zero: |θ_0| is at least this times sqrt(d)."""
LONGEST_WAY = 100_000.0
"""Of a score, if all records always agreed: what a run over features is limited to where there is hardly any noise."""
NARROW = 1024
"""Columns of a view that any number of records may have."""
MODULE = "torch:"
CLASSIFIERS = ("logistic", "softmax")


@dataclass(frozen=True)
class Recipe:
    """The numbers that a kind of run differs in."""

    steps: int
    """Rounds of descent, after what is prepared."""
    smallest_share: float
    """Of the records, in a batch"""
    amplified: float
    """The batch is at least this times μ/√T of the records, so that amplification does not end."""
    clip_factor: float
    """The clip norm over the median gradient norm at the start."""
    momentum: float
    score_noise: float = 0.0
    """What noise may move a typical score."""
    most_columns: int = 0
    """Of a view: parties keep its rows dense."""
    most_cells: int = 2**28
    """Of a view of more than `NARROW` columns, over all parties: a gibibyte."""
    intercept_share: float = math.inf
    """The intercept is at most one over this of the features' length."""


RECIPES = {
    "tables": Recipe(200, 1 / 16, 1.5, 1.35, 0.9, 0.55, most_columns=4096, intercept_share=3.0),
    "features": Recipe(200, 1 / 16, 1.5, 0.05, 0.0, 2.0, most_columns=8192, most_cells=2**62, intercept_share=7.0),
    "networks": Recipe(300, 1 / 128, 1.0, 0.25, 0.0),
}


def recipe_of(setting: Setting, said: str) -> str:
    """By what is public, unless a study says it."""
    if said not in RECIPES:
        if is_network(setting.model) and setting.model != "perceptron":
            return "networks"
        return "features" if setting.normalised and setting.model in CLASSIFIERS else "tables"
    if said == "features" and setting.model not in CLASSIFIERS:
        raise AlgorithmError(f"recipe is 'features', for {' and '.join(CLASSIFIERS)} models: leave it out")
    if said == "networks" and not is_network(setting.model):
        raise AlgorithmError("recipe is 'networks' and the model is none: leave it out")
    return said


def is_network(model: str) -> bool:
    """By the kind that a manifest names: a perceptron, or an institution's own module."""
    return model == "perceptron" or model.startswith(MODULE)


def mean_step_of_features(row: float, clip: float, noise: float, steps: int, score_noise: float) -> float:
    """The mean step of a run whose noise moves a score of a row this long by `score_noise`.

    `noise` is the deviation of a coordinate of one round's estimate, in units of the clip.
    """
    wanted = score_noise / max(row * noise * clip * DECAY * math.sqrt(steps), 1e-300)
    return min(wanted, LONGEST_WAY / (row * clip * steps))


def mean_step_of_network(theta: Floats, clip: float, noise: float, steps: int) -> float:
    """Half of the first step, which decays to zero."""
    dimension = len(theta)
    length = max(norm(theta), SMALLEST_START * math.sqrt(dimension))
    allowed = NOISE_REACH * length / max(noise * clip * DECAY * math.sqrt(dimension * steps), 1e-300)
    return min(length / (2 * clip), allowed)
