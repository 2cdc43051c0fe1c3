"""scikit-learn's conventions with differential privacy: one site's records, one private model.

    from parley.study.estimators import PrivateClassifier

    model = PrivateClassifier(epsilon=1.0, bounds=(0, 200), classes=[0, 1]).fit(X, y)
    model.predict_proba(X_new)
    print(model.privacy_)                 # epsilon, delta, a sentence, and the total over all fits of these records

What would leak is never taken from the records: bounds, categories and labels are said by whoever fits. There is no
`random_state`: noise and batches come from the operating system, so two fits differ. docs/estimators.md is the guide.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parley.learning.checks import label_of
from parley.learning.columns import Target, Uniform
from parley.learning.records import Records, encode
from parley.learning.schema import Schema
from parley.models.module_spec import is_module
from parley.study.estimator_input import (
    InputError,
    finite,
    input_errors,
    labelled,
    matrix,
    matrix_like,
    measured,
    named,
    positive,
)
from parley.study.fit_costs import SPENDING, rows_of
from parley.study.model_file import LoadedModel
from parley.study.one_site import Fitted, Privacy, play, prepare, usual_delta
from parley.study.public_columns import (
    Given,
    columns_from,
    columns_within,
    in_order,
    names_of_features,
    pair,
    rows_in,
    scaled,
)
from parley.study.study import Study
from parley.study.surroundings import BoundsWarning, warn, warn_of_surroundings

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError as NotFittedError
except ImportError:
    from parley.study.estimator_base import BaseEstimator, ClassifierMixin, RegressorMixin
    from parley.study.estimator_base import NotFittedError as NotFittedError

Floats = NDArray[np.float64]
MOST_CUT = 0.05
"""Share of the records in which a bound may cut a column before it is said."""


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: columns by public facts, one charged fit, a model file."""

    epsilon: Any
    delta: Any
    bounds: Any
    schema: Any
    model: Any
    algorithm: Any

    def to_model(self) -> LoadedModel:
        """As a model file has it, with its card: what `parley.study.load` gives."""
        self._require_fit()
        return self._fitted.with_card()

    def save(self, path: Path | str) -> None:
        """Write the model file, and its card beside it."""
        self.to_model().save(path)

    def _read(self, X: Any) -> Given:
        """Cells and what they mean, for a fit."""
        if (self.bounds is None) == (self.schema is None):
            what = "are both missing" if self.bounds is None else "are both there"
            raise InputError(
                f"bounds and schema {what}: give one of them, bounds=(low, high) for numbers, or schema= for frames "
                "with categories and gaps. Take them from public knowledge: what is taken from the records leaks"
            )
        if self.bounds is not None:
            found = matrix(X)
            columns = columns_within(self.bounds, found.names, found.values.shape[1])
            return Given(columns, found.data(columns.features), found.names)
        columns = columns_from(self.schema)
        data = columns.read(X)
        if not rows_in(data):
            raise InputError("Found array with 0 sample(s) while a minimum of 1 is required: give some")
        return Given(columns, data, names_of_features(columns.features) or None)

    def _train(self, given: Given, target: Target, cells: Sequence[Any]) -> None:
        """Charge one fit, make it, and keep what it released."""
        model = self._model_table(target)
        schema = given.columns.schema(target, intercept=not is_module(model["kind"]))
        records = encode(given.labelled(target.name, cells), schema)
        delta = usual_delta(records.units) if self.delta is None else positive("delta", self.delta)
        study = Study(
            schema,
            model=model,
            algorithm=named("algorithm", self.algorithm, "name"),
            epsilon=positive("epsilon", self.epsilon),
            delta=delta,
            own=0.0,
        )
        prepared = prepare(study, records)
        say_what_was_cut(records, schema)
        warn_of_surroundings()
        known = SPENDING.digests(rows_of(given.identifying, rows_in(given.data)))
        SPENDING.charge(known, prepared.calibrated.epsilon, delta)
        fit = play(prepared)
        self.privacy_ = Privacy(study, fit, known)
        self._fitted, self._columns = Fitted.of(study, fit), given.columns
        self.n_features_in_ = given.columns.count
        if given.names is not None:
            self.feature_names_in_ = np.array(given.names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _outputs(self, X: Any) -> Floats:
        """Of the model, for rows like those that were fitted."""
        self._require_fit()
        if self.schema is not None:
            return self._fitted.model.outputs(self._columns.read(X))
        found = matrix_like(X, type(self).__name__, getattr(self, "feature_names_in_", None), self.n_features_in_)
        return self._fitted.model.outputs(found.data(self._columns.features))

    def _require_fit(self) -> None:
        if not hasattr(self, "privacy_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )

    def _model_table(self, target: Target) -> dict[str, Any]:
        model = named("model", self.model, "kind")
        if model.get("kind") == "logistic" and target.kind == "classes":
            model["kind"] = "softmax"
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = self.schema is not None
        return tags


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A classifier that is (epsilon, delta)-differentially private towards whoever sees it and not the records.

    `bounds` is (low, high), each a number or one for each column, or a pair by column name; `schema` takes its place
    for frames with categories and gaps. `classes` lists the labels, or is "from y" where it is public which labels
    there are. `delta` is 1e-5 unless given, less for more than 10,000 records. `model` is logistic (softmax for more
    than two classes), smoothed-hinge or perceptron, or a table with options; `algorithm` as in a study.
    docs/estimators.md explains every argument.

    >>> ages, sick = [[20], [70], [30], [60]] * 50, [False, True, False, True] * 50
    >>> model = study.PrivateClassifier(epsilon=5.0, bounds=(0, 100), classes=[False, True]).fit(ages, sick)
    >>> model.predict([[25], [65]]).tolist()
    [False, True]
    >>> model.predict_proba([[25]]).shape
    (1, 2)
    >>> model.privacy_.delta
    1e-05
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        bounds: Any = None,
        classes: Any = None,
        schema: Any = None,
        model: str | Mapping[str, Any] = "logistic",
        algorithm: str | Mapping[str, Any] = "auto",
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.bounds, self.classes, self.schema = bounds, classes, schema
        self.model, self.algorithm = model, algorithm

    @input_errors()
    def fit(self, X: Any, y: Any) -> Self:
        """Train on these records, once, at the price of `epsilon` and `delta`, which `privacy_` states."""
        given = self._read(X)
        classes, cells = labelled(y, self.classes, type(self).__name__, rows_in(given.data))
        names = [label_of(each) for each in classes]
        name = given.free_name(y)
        if len(names) == 2:
            target = Target(name, "binary", positive=(names[1],), negative=(names[0],))
        else:
            target = Target(name, "classes", classes=tuple(names))
        self._train(given, target, cells)
        self.classes_ = np.array(classes)
        return self

    @input_errors()
    def decision_function(self, X: Any) -> Floats:
        """Raw scores: float64[rows] of two classes, above 0 for the second; float64[rows, classes] of more."""
        found = self._outputs(X)
        return found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels as they were given."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])

    @input_errors()
    def predict_proba(self, X: Any) -> Floats:
        """Of each class, float64[rows, classes], in the order of `classes_`."""
        outputs = self._outputs(X)
        if self._fitted.model.description["model"]["kind"] == "smoothed-hinge":
            raise AttributeError("a smoothed-hinge model has no probabilities: use decision_function, or logistic")
        return self._fitted.model.chances(outputs)


class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A regressor that is (epsilon, delta)-differentially private towards whoever sees it and not the records.

    As PrivateClassifier; `target_bounds` is (low, high) of what is predicted, from public knowledge. `model` is linear,
    huber or perceptron, or a table with options.

    >>> metres, kilos = [[1.5], [1.9], [1.6], [1.8]] * 50, [55, 90, 60, 80] * 50
    >>> model = study.PrivateRegressor(epsilon=10.0, bounds=(1, 2), target_bounds=(30, 150)).fit(metres, kilos)
    >>> bool(model.predict([[1.85]])[0] > model.predict([[1.55]])[0])
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        schema: Any = None,
        model: str | Mapping[str, Any] = "linear",
        algorithm: str | Mapping[str, Any] = "auto",
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.bounds, self.target_bounds, self.schema = bounds, target_bounds, schema
        self.model, self.algorithm = model, algorithm

    @input_errors()
    def fit(self, X: Any, y: Any) -> Self:
        """Train on these records, once, at the price of `epsilon` and `delta`, which `privacy_` states."""
        given = self._read(X)
        cells = measured(y, type(self).__name__, rows_in(given.data))
        if self.target_bounds is None:
            raise InputError(
                "target_bounds is missing: give (low, high) of what is predicted, from public knowledge, such as "
                "(0, 100); the smallest and the largest y would tell of two records"
            )
        low, high = (finite("target_bounds", end) for end in pair(self.target_bounds, "target_bounds"))
        in_order("target_bounds", low, high)
        low, high, centre, spread = scaled(low, high)
        target = Target(given.free_name(y), "number", low=low, high=high, centre=centre, spread=spread)
        self._train(given, target, cells)
        return self

    @input_errors()
    def predict(self, X: Any) -> Floats:
        """Numbers in y's unit."""
        outputs = self._outputs(X)
        return np.asarray(self._fitted.model.decided(outputs), np.float64)


def say_what_was_cut(records: Records, schema: Schema) -> None:
    """To whoever fits, and never in anything that is released."""
    for name, count in records.adjusted.items():
        many = schema.features.count if isinstance(schema.features, Uniform) and name == "features" else 1
        share = count / (len(records.rows) * many)
        if share > MOST_CUT:
            warn(
                f"{name}: {share:.0%} of the values lie outside what was given for it, and were cut or left out: check "
                "the unit, and take wider bounds from public knowledge, not from these records. This sentence tells of "
                "them: it is for you alone",
                BoundsWarning,
            )
