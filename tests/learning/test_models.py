"""Gradients against finite differences and scikit-learn; closed forms against materialised per-record gradients."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from parley.learning.encoding import Scale, fraction_bits
from parley.learning.engine import clip_vectors
from parley.learning.perceptron import Perceptron
from parley.learning.rows import DenseRows, SparseRows
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Clip, GradientClip, MomentumClip
from tests.support.model_data import MODELS, D, N, data


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_the_derivatives_of_the_losses(name: str) -> None:
    rows, targets, theta = data(name)
    model, block = MODELS[name], rows.take(np.arange(N))
    gradients = model.gradients(block, targets, theta)
    for index in range(model.dimension):
        step = np.zeros_like(theta)
        step[index] = 1e-6
        numeric = (model.losses(block, targets, theta + step) - model.losses(block, targets, theta - step)) / 2e-6
        np.testing.assert_allclose(gradients[:, index], numeric, atol=2e-6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "clip", [GradientClip(0.3), GradientClip(50.0), MomentumClip(0.4, 0.05, 0.3)], ids=["tight", "loose", "momentum"]
)
@pytest.mark.parametrize("distance", [0.3, 1e-4])
def test_the_fused_query_is_the_sum_of_clipped_records(name: str, clip: Clip, distance: float) -> None:
    """Closed forms and integers against float64 per-record gradients, within the lattice's and float32's resolution."""
    rows, targets, theta = data(name)
    model, block = MODELS[name], rows.take(np.arange(N))
    near = theta + np.random.default_rng(3).normal(0, distance / np.sqrt(len(theta)), len(theta))
    terms = clip.terms(1)
    bound = clip.contribution_bound(1)
    sigma = 2.0 * 1.3 * bound
    lattice = Lattice(sigma, fraction_bits(N, bound, sigma, 41, model.largest_limit))
    points = (theta, near)[: terms.points]
    present = np.arange(N) % 5 > 0
    found = lattice.decode(model.contribution(block, targets, present, points, terms, Scale.of(lattice, bound, N)))
    gradients = model.gradients(block, targets, theta)
    expected = terms.gradient_weight * clip_vectors(gradients, terms.gradient_norm)
    if len(points) == 2:
        change = gradients - model.gradients(block, targets, near)
        expected += terms.difference_weight * clip_vectors(change, terms.difference_norm)
    target = expected[present].sum(axis=0)
    if isinstance(model, Perceptron):
        # Records at their clip are shortened by what rounding could add, one or two per cent, all of them alike.
        assert np.linalg.norm(found - target) <= 0.02 * np.linalg.norm(target)
    else:
        # Half a unit of each record's integer weight, and shortening by one more.
        np.testing.assert_allclose(found, target, atol=present.sum() * 1.5 * 256 * lattice.step)


def test_logistic_loss_and_optimum_are_those_of_scikit_learn() -> None:
    rows, targets, theta = data("logistic")
    model, block = MODELS["logistic"], rows.take(np.arange(N))
    values = rows.values * 2.0**-8
    probability = 1 / (1 + np.exp(-values @ theta))
    assert model.losses(block, targets, theta).mean() == pytest.approx(log_loss(targets, probability), abs=1e-12)
    fitted = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(values, targets)
    # scikit-learn minimises C Σ loss + |θ|²/2: our gradient vanishes there with the penalty's added.
    at = fitted.coef_[0]
    np.testing.assert_allclose(model.gradients(block, targets, at).sum(axis=0) + at, 0, atol=1e-3)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_sparse_and_dense_rows_give_the_same_integers(name: str) -> None:
    rng = np.random.default_rng(5)
    columns = np.array([rng.permutation(D)[:3] for _ in range(N)])
    values = rng.integers(-100, 101, (N, 3))
    dense = np.zeros((N, D))
    np.put_along_axis(dense, columns, values, axis=1)
    _, targets, theta = data(name)
    clip = GradientClip(0.5)
    terms = clip.terms(0)
    lattice = Lattice(1.3, 20)
    scale = Scale.of(lattice, clip.norm, N)
    everyone, present = np.arange(N), np.ones(N, np.bool_)
    answers = [
        MODELS[name].contribution(rows.take(everyone), targets, present, (theta,), terms, scale)
        for rows in (SparseRows.of(columns, values, 6, D), DenseRows.of(dense, 6))
    ]
    # Scores may differ in the last place, and with them an integer weight by one.
    assert np.abs(answers[0] - answers[1]).max() <= 100 * N
    assert np.abs(answers[0]).max() > 10_000
