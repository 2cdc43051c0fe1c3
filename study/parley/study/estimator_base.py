"""What an estimator is where scikit-learn is not installed: parameters by name, a representation, a score.

`parley.study.estimators` derives from scikit-learn's own classes where they are there, and from these where they are
not, so that the same program runs in both places.
"""

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class NotFittedError(ValueError, AttributeError):
    """The estimator was asked before it was fitted."""


class DataConversionWarning(UserWarning):
    """What was given was read as something of another shape."""


class BaseEstimator:
    """Parameters are the arguments of `__init__`, kept as they were given."""

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter by name; none holds another estimator, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Any:
        """Change parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}: use {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        changed = (f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(usual[name]))
        return f"{type(self).__name__}({', '.join(changed)})"


class ClassifierMixin:
    """`score` of a classifier."""

    _estimator_type = "classifier"

    def score(self, X: Any, y: ArrayLike) -> float:
        """The share of labels that are right. Of private records it is a private figure."""
        predicted: Any = self.predict(X)  # type: ignore[attr-defined]
        return float(np.mean(predicted == np.asarray(y)))


class RegressorMixin:
    """`score` of a regressor."""

    _estimator_type = "regressor"

    def score(self, X: Any, y: ArrayLike) -> float:
        """R²: 1 is perfect, 0 as good as the mean. Of private records it is a private figure."""
        wanted = np.asarray(y, np.float64)
        left = np.sum((wanted - self.predict(X)) ** 2)  # type: ignore[attr-defined]
        return float(1 - left / np.sum((wanted - wanted.mean()) ** 2))
