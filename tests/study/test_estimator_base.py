"""What stands in for scikit-learn's classes keeps their conventions."""

from typing import Any

import numpy as np
import pytest

from parley.study.estimator_base import BaseEstimator, ClassifierMixin, NotFittedError, RegressorMixin


class Constant(ClassifierMixin, BaseEstimator):
    def __init__(self, value: float = 1.0, *, other: Any = None) -> None:
        self.value, self.other = value, other

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.value)


class Number(RegressorMixin, Constant):
    pass


def test_parameters_are_read_and_set_by_name() -> None:
    estimator = Constant(2.0)
    assert estimator.get_params() == {"value": 2.0, "other": None}
    assert estimator.set_params(value=3.0, other="x") is estimator
    assert repr(estimator) == "Constant(other='x', value=3.0)"
    assert repr(Constant()) == "Constant()"
    with pytest.raises(ValueError, match="Constant has no parameter 'valeu': use other, value"):
        estimator.set_params(valeu=1)


def test_scores_are_accuracy_and_r_squared() -> None:
    rows = [[0]] * 4
    assert Constant(1).score(rows, [1, 1, 1, 0]) == 0.75
    assert Number(1.5).score(rows, [0, 1, 2, 3]) == 0.0
    assert Number(0.0).score(rows, [0, 0, 0, 0.0001]) < 0


def test_not_fitted_is_what_callers_of_either_kind_catch() -> None:
    assert issubclass(NotFittedError, ValueError)
    assert issubclass(NotFittedError, AttributeError)
