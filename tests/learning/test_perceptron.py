"""The perceptron."""

import numpy as np
import pytest

from parley.learning.encoding import Scale, fraction_bits
from parley.learning.models import Squared
from parley.learning.perceptron import Perceptron
from parley.learning.rows import DenseRows
from parley.mpc.ring import Lattice
from parley.privacy.clipping import GradientClip, MomentumClip
from tests.support.model_data import MODELS, N, data


@pytest.mark.parametrize("momentum", [True, False])
def test_a_perceptrons_answer_is_the_same_with_and_without_the_compiled_sums(
    momentum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers, so equal to the last bit on every processor that computes the same scores."""
    rows, targets, theta = data("perceptron")
    near = theta + np.random.default_rng(3).normal(0, 1e-3, len(theta))
    clip = MomentumClip(0.4, 0.05, 0.3) if momentum else GradientClip(0.3)
    terms = clip.terms(1)
    bound = clip.contribution_bound(1)
    sigma = 2.0 * 1.3 * bound
    lattice = Lattice(sigma, fraction_bits(N, bound, sigma, 41, MODELS["perceptron"].largest_limit))
    scale = Scale.of(lattice, bound, N)
    block, present, points = rows.take(np.arange(N)), np.ones(N, np.bool_), (theta, near)[: terms.points]
    compiled = MODELS["perceptron"].contribution(block, targets, present, points, terms, scale)
    monkeypatch.setattr("parley.learning.perceptron.available", lambda: False)
    plain = MODELS["perceptron"].contribution(block, targets, present, points, terms, scale)
    assert (compiled == plain).all()
    assert np.abs(plain).max() > 1000


def test_a_perceptrons_record_with_a_runaway_score_contributes_zero() -> None:
    """Weights and targets of any size leave no nan behind and do not touch other records."""
    model = Perceptron(2, (3,), Squared())
    rows = DenseRows.of(np.array([[3, 4], [1, 0]]), 0).take(np.array([0, 1]))
    clip = MomentumClip(1.0, 0.5, 0.3)
    terms = clip.terms(1)
    scale = Scale.of(Lattice(2.0, 16), clip.contribution_bound(1), 2)
    points = (np.linspace(-1, 1, model.dimension), np.linspace(-1, 1.1, model.dimension))
    alone = model.contribution(rows, np.array([0.5, 0.0]), np.array([True, False]), points, terms, scale)
    for target in (1e308, np.inf, np.nan):
        both = model.contribution(rows, np.array([0.5, target]), np.ones(2, np.bool_), points, terms, scale)
        assert (both == alone).all()
    assert alone.any()
    wild = tuple(np.where(np.arange(model.dimension) % 3 == 0, 1e308, point) for point in points)
    assert np.isfinite(model.contribution(rows, np.zeros(2), np.ones(2, np.bool_), wild, terms, scale)).all()
