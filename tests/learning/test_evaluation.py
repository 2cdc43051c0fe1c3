"""What a run minimises."""

import numpy as np
import pytest

from parley.learning.evaluation import evaluate
from parley.learning.models import Linear, Logistic, Softmax, Squared
from parley.learning.records import Records
from parley.learning.rows import DenseRows


class Half:
    """A regulariser of ½|θ|²."""

    def value(self, theta: np.ndarray) -> float:
        return float(theta @ theta / 2)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        return theta


def test_every_kind_of_target_has_its_own_error() -> None:
    records = Records(DenseRows.of(np.array([[1], [2], [4]]), 0), np.array([0.0, 1.0, 1.0]))
    binary = evaluate(Linear(1, Logistic()), records, np.array([0.5]), Half(), "binary")
    assert binary.error == pytest.approx(1 / 3)
    assert binary.auc == 1.0
    assert binary.objective == pytest.approx(binary.loss + 0.125)
    classes = evaluate(Linear(1, Softmax(2)), records, np.array([1.0, 0.0]), Half(), "classes")
    assert classes.error == pytest.approx(2 / 3)
    assert classes.auc is None
    number = evaluate(Linear(1, Squared()), records, np.array([1.0]), Half(), "number")
    assert number.error == pytest.approx(np.sqrt((1 + 1 + 9) / 3))


def test_one_class_alone_has_no_area() -> None:
    records = Records(DenseRows.of(np.array([[1], [2]]), 0), np.array([1.0, 1.0]))
    assert evaluate(Linear(1, Logistic()), records, np.array([0.5]), Half(), "binary").auc is None
