"""What `auto` measures before it descends: through a party's own arithmetic, with and without noise."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.algorithms.algorithm import Setting
from parley.algorithms.auto import Auto
from parley.algorithms.preparation import NOTHING, constant_model, shrunk
from parley.algorithms.registry import build
from parley.learning.frame import Frame
from parley.learning.models import Linear, Logistic, Residual, Softmax, Squared
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.study.simulation import Federation, calibrate

Floats = NDArray[np.float64]
BITS = 12


def prepared(
    rows: Floats, targets: Floats, kind: str, residual: Residual, *, noise: bool = False, epsilon: float = 1.0,
    bound: float = 10.0, target_bound: float = 1.0,
) -> tuple[Auto, Federation]:  # fmt: skip
    """`auto` after its preparation on these features and the constant 1."""
    held = np.hstack([np.rint(rows * 2.0**BITS), np.full((len(rows), 1), 2.0**BITS)]).astype(np.int32)
    records = Records(DenseRows.of(held, BITS), targets, row_bound=bound)
    model = Linear(held.shape[1], residual)
    algorithm = build("auto", {})
    assert isinstance(algorithm, Auto)
    plan = algorithm.plan(
        Setting(
            records=len(rows), dimension=model.dimension, epsilon=epsilon, delta=1e-5, feature_bound=bound, model=kind,
            columns=model.features, intercept=True, target_bound=target_bound,
        )
    )  # fmt: skip
    mechanism = calibrate(plan, {"party-1": len(rows)}, epsilon, 1e-5, "rdp").mechanism
    federation = Federation(algorithm, plan, model, {"party-1": records}, mechanism, 3, noise=noise)
    algorithm.begin(plan, federation.start(), federation.noise_level(), federation.public)
    for index in range(len(algorithm.asked)):
        algorithm.tell(index, federation.round(index))
    return algorithm, federation


def clouds(count: int, columns: int, scale: float = 1.0) -> Floats:
    return np.random.default_rng(8).normal(size=(count, columns)) * scale


@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_rows_are_as_long_as_they_are_also_where_they_are_far_shorter_than_the_constant(scale: float) -> None:
    rows = clouds(4000, 9, scale)
    labels = (rows[:, 0] > 0).astype(float)
    algorithm, _ = prepared(rows, labels, "logistic", Logistic())
    shift, scales = algorithm.state["shift"][:-1], algorithm.state["scale"][:-1]
    seen = np.linalg.norm((rows - shift) * scales, axis=1)
    intercept = algorithm.state["scale"][-1]
    assert algorithm.number("length") == pytest.approx(math.hypot(np.median(seen), intercept), rel=0.06)
    assert np.median(seen) > 0.7  # what is short is stretched


@pytest.mark.parametrize("spread", [0.02, 1.0])
def test_of_a_number_rows_and_residuals_are_told_apart_however_small_it_is(spread: float) -> None:
    rows = clouds(4000, 6)
    targets = 0.5 + spread * rows[:, 0]
    algorithm, _ = prepared(rows, targets, "linear", Squared(), target_bound=8.0)
    seen = np.linalg.norm((rows - algorithm.state["shift"][:-1]) * algorithm.state["scale"][:-1], axis=1)
    assert algorithm.number("length") == pytest.approx(
        math.hypot(np.median(seen), algorithm.state["scale"][-1]), rel=0.06
    )
    # Eight batches of a sixteenth leave a deviation of 0.025; the clip at 2.5 typical targets takes up to 0.03.
    assert algorithm.state["constant"][0] == pytest.approx(0.5, abs=0.13)
    assert algorithm.number("spread") == pytest.approx(np.median(np.abs(targets - 0.5)), rel=0.25)


def test_the_descent_starts_at_the_rates_of_the_classes() -> None:
    labels = np.random.default_rng(1).choice(4, size=6000, p=[0.7, 0.1, 0.15, 0.05]).astype(float)
    algorithm, _ = prepared(clouds(6000, 3), labels, "softmax", Softmax(4))
    scores = algorithm.theta.reshape(4, 4)
    rates = np.exp(scores[-1]) / np.exp(scores[-1]).sum()
    np.testing.assert_allclose(rates, np.bincount(labels.astype(int)) / 6000, atol=0.02)
    assert not scores[:-1].any()


def test_a_frame_that_leaves_the_constant_alone_has_no_feature_in_it() -> None:
    rows = DenseRows.of(np.array([[2**20, -(2**20), 2**10]]), 10)
    framed = Frame(np.zeros(3), np.array([NOTHING, NOTHING, 1.0])).rows(rows)
    np.testing.assert_array_equal(framed.values, [[0, 0, 256]])


def test_no_class_counts_as_rarer_than_noise_can_tell() -> None:
    scores = constant_model("logistic", np.array([0.5]), 0.02, 10_000)  # nobody is positive, it seems
    rate = 1 / (1 + np.exp(-scores[0]))
    assert rate == pytest.approx(0.04)
    scores = constant_model("logistic", np.array([0.1]), 0.5, 100)  # all of it may be noise
    np.testing.assert_array_equal(scores, [0.0])
    scores = constant_model("softmax", np.array([1 / 3, 1 / 3, -2 / 3]), 0.3, 100)
    assert np.isfinite(scores).all()
    scores = constant_model("linear", np.array([-2.0]), 0.1, 100)
    assert scores[0] == pytest.approx(2.0, rel=0.01)


def test_what_noise_explains_is_taken_away() -> None:
    np.testing.assert_array_equal(shrunk(np.array([0.1, -0.1]), 1.0), [0.0, 0.0])
    np.testing.assert_allclose(shrunk(np.array([3.0, 4.0]), 0.0), [3.0, 4.0])


def run(rows: Floats, labels: Floats, epsilon: float) -> Auto:
    algorithm, federation = prepared(rows, labels, "logistic", Logistic(), noise=True, epsilon=epsilon)
    for index in range(len(algorithm.asked), algorithm.releases):
        algorithm.tell(index, federation.round(index))
    return algorithm


def test_where_noise_hides_everything_the_model_looks_at_no_feature_and_says_so() -> None:
    rng = np.random.default_rng(2)
    algorithm = run(clouds(300, 40), (rng.random(300) < 0.3).astype(float), 0.3)
    algorithm.keep("gain", 2 * math.sqrt(algorithm.number("doubt")))  # the loss seems to have risen
    *features, intercept = algorithm.result()
    assert not algorithm.learned
    assert not np.any(features)
    assert np.isfinite(intercept)
    assert "noise hides" in algorithm.remark
    assert np.any(algorithm.theta[:-1])  # what the descent came to


def test_what_can_be_learned_is_kept() -> None:
    rows = clouds(4000, 5)
    algorithm = run(rows, (rows[:, 0] > 0).astype(float), 3.0)
    assert algorithm.learned
    assert algorithm.remark == ""
    assert ((rows @ algorithm.result()[:-1] > 0) == (rows[:, 0] > 0)).mean() > 0.9
    # What released gradients say of the loss is about what has happened to it.
    scores = rows @ algorithm.result()[:-1] + algorithm.result()[-1]
    fallen = np.logaddexp(0, np.where(rows[:, 0] > 0, -scores, scores)).mean() - math.log(2)
    assert algorithm.number("gain") == pytest.approx(fallen, rel=0.35)
