"""Auto: its view, its clip, its batches, its step."""

import math

import numpy as np
import pytest

from parley.algorithms.algorithm import Setting
from parley.algorithms.auto import Auto
from parley.algorithms.registry import build
from parley.algorithms.regularisers import Regulariser
from parley.privacy.randomness import SystemRandomness
from tests.support.algorithms import started


def test_auto_takes_its_clip_from_the_histograms_median() -> None:
    algorithm, _ = started("auto")
    assert isinstance(algorithm, Auto)
    histogram = np.zeros(24)
    histogram[6] = 100.0
    # Half way into the bucket that ends at top·2^−3.
    assert algorithm.median_of(histogram, 8.0, 0.5) == pytest.approx(8.0 * 2**-3.25)
    # Four deviations of noise, 0.1 each here, explain a count; then what was known before decides.
    assert algorithm.median_of(0.002 * histogram, 8.0, 0.5) == pytest.approx(0.5)


def viewed() -> Auto:
    """`auto` on two features and an intercept, without noise, through its preparation."""
    algorithm = build("auto", {"regulariser": Regulariser("l2", 0.1)})
    assert isinstance(algorithm, Auto)
    plan = algorithm.plan(
        Setting(records=1000, dimension=3, epsilon=0.5, delta=1e-5, feature_bound=2.0, columns=3, intercept=True)
    )
    algorithm.begin(plan, np.zeros(3), 0.0, SystemRandomness())
    histogram = np.zeros(24)
    histogram[6] = 1.0
    answers = {
        "mean": np.array([0.5, -0.25, 1.0]),
        "absolute": np.array([0.5, 0.1, 0.0]),
        "second": np.array([0.5, 0.0125, 0.0]),
        "labels": np.array([0.0, 0.0, 0.1]),  # of 1/2 − y: four in ten are positive
    }
    for index, kind in enumerate(algorithm.asked):
        asked = algorithm.ask(index)
        assert ("norms" in asked.kind) == (kind not in answers)
        algorithm.tell(index, answers[kind] * asked.scale if kind in answers else histogram)
    return algorithm


def test_autos_view_is_made_of_released_means_and_spreads() -> None:
    algorithm = viewed()
    np.testing.assert_allclose(algorithm.state["shift"], [0.5, -0.25, 0.0])
    # sqrt(E|z| / 2E z²) is sqrt(1/2) and sqrt(4); rows of 2·8·2^−3.25 leave the intercept as it is when the features'
    # share is a third of it or more, and else shorten it.
    features = 2 * 8.0 * 2**-3.25
    np.testing.assert_allclose(algorithm.state["scale"], [math.sqrt(0.5), 2.0, min(1, features / 3)], rtol=1e-6)


def test_autos_view_changes_the_coordinates_and_not_the_model() -> None:
    algorithm = viewed()
    shift, scale = algorithm.state["shift"], algorithm.state["scale"]
    rng = np.random.default_rng(5)
    inner, row = rng.normal(size=3), np.array([0.7, -1.2, 1.0])
    theta = algorithm.outward(inner)
    assert row @ theta == pytest.approx(((row - shift) * scale) @ inner)
    np.testing.assert_allclose(algorithm.inward(theta), inner)
    # `pulled` is the transpose of `outward`, which is linear.
    outer = rng.normal(size=3)
    assert algorithm.pulled(outer) @ inner == pytest.approx(outer @ theta)


def test_auto_counts_as_distance_what_noise_does_not_explain() -> None:
    algorithm = viewed()
    first = len(algorithm.asked)
    algorithm.tell(first, np.array([1.0, 0.0, 0.0]))
    moved = np.linalg.norm(algorithm.state["inner"] - algorithm.state["origin"])
    assert algorithm.number("drift") == 0.0
    algorithm.state["noise"] = np.array([1e3])
    algorithm.state["distance"] = np.array([0.0])
    before = algorithm.state["inner"]
    algorithm.tell(first + 1, np.array([1.0, 0.0, 0.0]))
    # No distance is known, so that noise this large may not move the model.
    np.testing.assert_allclose(algorithm.state["inner"], before)
    assert algorithm.number("distance") == pytest.approx(moved)


def test_autos_step_is_one_that_heavy_ball_is_stable_at() -> None:
    """The worst quadratic of the assumed curvature, on the longest step."""
    algorithm = viewed()
    clip = algorithm.number("clip")
    algorithm.state["distance"] = np.array([1e9])
    curvature = 0.25 * (2 * algorithm.number("median")) ** 2
    step, beta = 2 * algorithm.step(clip), algorithm.own.momentum
    point, velocity = 1.0, 0.0
    for _ in range(200):
        velocity = beta * velocity + (1 - beta) * curvature * point
        point -= step * velocity
    assert abs(point) < 1


def test_auto_draws_more_where_privacy_noise_is_small() -> None:
    shares = []
    for epsilon in (0.1, 0.3, 4.0):
        setting = Setting(records=50_000, dimension=20, epsilon=epsilon, delta=1e-5, feature_bound=2.0)
        shares.append(build("auto", {}).plan(setting).batch / 50_000)
    assert shares[0] == pytest.approx(1 / 16)
    assert shares[0] < shares[1] < shares[2] == 0.5
