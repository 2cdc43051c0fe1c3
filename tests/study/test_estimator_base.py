"""What stands in for scikit-learn's classes keeps their conventions."""

import subprocess
import sys
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


def test_without_scikit_learn_the_estimators_work_as_well() -> None:
    program = (
        "import sys\n"
        "sys.modules['sklearn'] = None\n"
        "import numpy as np, pickle\n"
        "from parley.study import PrivateClassifier, PrivateRegressor\n"
        "X = np.random.default_rng(0).uniform(-1, 1, (300, 2))\n"
        "y = (X[:, 0] > 0).astype(int)\n"
        "model = PrivateClassifier(epsilon=5.0, bounds=(-1, 1), classes=[0, 1])\n"
        "try: model.predict(X)\n"
        "except ValueError as error: print(type(error).__name__)\n"
        "model.set_params(epsilon=6.0)\n"
        "print(model, model.fit(X, y[:, None]).score(X, y) > 0.8, model.privacy_.epsilon > 5)\n"
        "print((pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all())\n"
        "number = PrivateRegressor(epsilon=6.0, bounds=(-1, 1), target_bounds=(-1, 1))\n"
        "print(number.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.5, number.get_params()['target_bounds'])\n"
        "print([name for name in sys.modules if name.startswith('sklearn.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "NotFittedError",
        "PrivateClassifier(bounds=(-1, 1), classes=[0, 1], epsilon=6.0) True True",
        "True",
        "True (-1, 1)",
        "[]",
    ], done.stderr
    assert "DataConversionWarning: A column-vector y was passed" in done.stderr
