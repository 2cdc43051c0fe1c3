"""X and y as scikit-learn's conventions have them: checked, in words that its users know, and without it.

Whatever is wrong here is said to the person who fits, who holds the records; no message travels anywhere.
"""

import numbers
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.errors import ParleyError
from parley.federation.extras import missing
from parley.learning.checks import label_of
from parley.learning.columns import Features, Uniform
from parley.learning.readers import Dense, Table
from parley.study.errors import StudyError
from parley.study.frames import cells_of, table_of
from parley.study.surroundings import warn

try:
    from sklearn.exceptions import DataConversionWarning
except ImportError:
    from parley.study.estimator_base import DataConversionWarning

Floats = NDArray[np.float64]
SHOWN = 5
FROM_Y = "from y"


class InputError(StudyError, ValueError):
    """What an estimator was given cannot be fitted or predicted; the message says what to change."""


@contextmanager
def input_errors() -> Iterator[None]:
    """Whatever parley refuses, as the ValueError that callers of estimators expect; and what is to be installed."""
    try:
        yield
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if (advice := missing(error)) is None:
            raise
        raise ModuleNotFoundError(advice, name=error.name) from None
    except ParleyError as error:
        raise InputError(str(error)) from None


def positive(what: str, value: Any) -> float:
    """A number above 0."""
    found = finite(what, value)
    if not found > 0:
        raise InputError(f"{what} is {found:g}: give a number above 0")
    return found


def finite(what: str, value: Any) -> float:
    """A number."""
    try:
        found = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else np.nan
    except OverflowError:
        found = np.nan
    if not np.isfinite(found):
        raise InputError(f"{what} is {str(value)[:40]!r}: give a finite number")
    return float(found)


def named(what: str, value: Any, field: str) -> dict[str, Any]:
    """A model or an algorithm: its name, or a table with the name in `field`."""
    if isinstance(value, str):
        return {field: value}
    if not isinstance(value, Mapping) or field not in value:
        raise InputError(f"{what} is {str(value)[:40]!r}: give a name, or a table such as {{{field!r}: …}}")
    return dict(value)


@dataclass(frozen=True)
class Matrix:
    """Numbers, with the names of their columns where they have any."""

    values: Floats
    names: tuple[str, ...] | None

    def data(self, features: Features) -> Table | Dense:
        """As these features want it: a matrix, or columns by their names in this order."""
        if isinstance(features, Uniform):
            return Dense(self.values, np.zeros(len(self.values)))
        names = [each.name for each in features]
        return Table(dict(zip(names, self.values.T, strict=True)), len(self.values))


def matrix(X: Any) -> Matrix:
    """A matrix of finite numbers, or what is wrong with it."""
    if hasattr(X, "toarray") or hasattr(X, "todense"):
        raise InputError("X is a sparse matrix, and sparse input is not supported: give X.toarray()")
    names = names_of(X)
    if names is not None or hasattr(X, "columns") or isinstance(X, Mapping):
        values = _numbers_of(table_of(X))
    else:
        values = _array_of(X)
    if values.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {values.ndim}D array instead, of shape {values.shape}. Reshape your data either "
            "using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is a single sample."
        )
    for count, what in ((len(values), "sample"), (values.shape[1], "feature")):
        if not count:
            raise InputError(
                f"Found array with 0 {what}(s) (shape={values.shape}) while a minimum of 1 is required: give some"
            )
    if not np.isfinite(values).all():
        row, column = (int(each[0]) for each in np.nonzero(~np.isfinite(values)))
        found = "NaN" if np.isnan(values[row, column]) else "infinity"
        raise InputError(
            f"Input X contains {found} (row {row + 1}, column {column + 1}): give schema=, whose columns have rules "
            "for what is missing"
        )
    return Matrix(values, names)


def names_of(X: Any) -> tuple[str, ...] | None:
    """Of a frame's columns, where all of them are texts."""
    if isinstance(X, Mapping):
        found: Sequence[Any] = list(X)
    elif hasattr(X, "column_names"):  # pyarrow's
        found = list(X.column_names)
    elif hasattr(X, "columns"):
        found = list(X.columns)
    else:
        return None
    texts = [isinstance(name, str) for name in found]
    if any(texts) and not all(texts):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted({type(name).__name__ for name in found})} as feature name / column name types: rename them"
        )
    return tuple(found) if found and all(texts) else None


def _numbers_of(table: Table | Dense) -> Floats:
    if isinstance(table, Dense):
        return np.asarray(table.values, np.float64)
    values = np.empty((table.count, len(table.columns)))
    for index, (name, cells) in enumerate(table.columns.items()):
        try:
            values[:, index] = [np.nan if cell is None else float(cell) for cell in cells]
        except (TypeError, ValueError):
            raise InputError(
                f"column {name} holds what is no number: give schema=, which says what its categories are"
            ) from None
    return values


def _array_of(X: Any) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
        raise InputError(
            "X is masked, and a matrix has no rule for gaps: give a frame with schema=, whose columns have one"
        )
    try:
        values = np.asarray(X)
    except ValueError:
        raise InputError("X has rows of different lengths: give as many numbers in each, or a frame") from None
    if np.iscomplexobj(values):
        raise InputError("Complex data not supported: give real numbers")
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind not in "OSU":
        raise InputError(f"X holds {values.dtype}: give numbers, or a frame with schema=")
    try:
        return values.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"X holds what is no number ({error}): give a frame with schema=") from None


def matrix_like(X: Any, estimator: str, names: Sequence[str] | None, count: int) -> Matrix:
    """X for a prediction: with the columns that were fitted, whose `names` are None where they had none."""
    given = names_of(X)
    if names is not None and given is not None and tuple(names) != given:
        raise InputError(_other_names(list(names), list(given)))
    if names is None and given is not None:
        warn(f"X has feature names, but {estimator} was fitted without feature names", UserWarning)
    if names is not None and given is None:
        warn(f"X does not have valid feature names, but {estimator} was fitted with feature names", UserWarning)
    found = matrix(X)
    if found.values.shape[1] != count:
        raise InputError(
            f"X has {found.values.shape[1]} features, but {estimator} is expecting {count} features as input"
        )
    return found


def _other_names(fitted: list[str], given: list[str]) -> str:
    """In scikit-learn's words."""
    unseen, missing = sorted(set(given) - set(fitted)), sorted(set(fitted) - set(given))
    message = "The feature names should match those that were passed during fit.\n"
    for title, names in (
        ("Feature names unseen at fit time:", unseen),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        if names:
            message += title + "\n" + "".join(f"- {name}\n" for name in names[:SHOWN])
            message += "- ...\n" if len(names) > SHOWN else ""
    return message if unseen or missing else message + "Feature names must be in the same order as they were in fit.\n"


def labelled(y: Any, classes: Any, estimator: str, rows: int) -> tuple[list[Any], list[str]]:
    """The declared labels in order, and y by their texts."""
    cells = column(y, estimator, rows)
    if classes is None:
        raise InputError(
            'classes is missing: list the labels, such as [0, 1], or say "from y" where it is public knowledge which '
            "labels there are; a label that few records have would tell of them"
        )
    if isinstance(classes, str) and classes == FROM_Y:
        if any(isinstance(each, float) and not each.is_integer() for each in cells):
            raise InputError(
                "Unknown label type: continuous. y holds numbers that are not whole: fit a PrivateRegressor, or list "
                "the labels in classes"
            )
        listed = set(cells)
    elif isinstance(classes, str) or not hasattr(classes, "__iter__"):
        raise InputError(f'classes is {str(classes)[:40]!r}: give a list of labels, or "{FROM_Y}"')
    else:
        listed = set(cells_of(classes, "classes"))
    if len(listed) < 2:
        raise InputError(f"classes has {len(listed)} label, one class is nothing to choose from: give two or more")
    try:
        ordered = sorted(listed)
    except TypeError:
        raise InputError("classes holds labels of several kinds: give all as numbers, or all as text") from None
    for row, cell in enumerate(cells):
        if cell not in listed:
            raise InputError(f"y has {str(cell)[:40]!r} in row {row + 1}, which classes does not list: add it")
    texts = {each: label_of(each) for each in ordered}  # True is 1 here, as it is in the list
    return ordered, [texts[cell] for cell in cells]


def measured(y: Any, estimator: str, rows: int) -> list[float]:
    """y as numbers."""
    try:
        return [float(cell) for cell in column(y, estimator, rows)]
    except (TypeError, ValueError) as error:
        raise InputError(f"y holds what is no number ({error}): fit a PrivateClassifier") from None


def column(y: Any, estimator: str, rows: int) -> list[Any]:
    """y as plain values, one for each row."""
    if y is None:
        raise InputError(f"{estimator} requires y to be passed, but the target y is None")
    found = cells_of(_flat(y), "y")
    if len(found) != rows:
        raise InputError(f"Found input variables with inconsistent numbers of samples: {[rows, len(found)]}")
    for row, cell in enumerate(found):
        if cell is None or (isinstance(cell, float) and not np.isfinite(cell)):
            raise InputError(
                f"Input y contains {'NaN' if cell is None else 'infinity'} (row {row + 1}): leave such rows out"
            )
    return found


def _flat(y: Any) -> Any:
    """One column of a table as a column, which scikit-learn warns of."""
    found = y if hasattr(y, "__iter__") and hasattr(type(y), "__len__") else np.asarray(y)
    shape = np.shape(found)
    if len(shape) == 2 and shape[1] == 1:
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ), "
            "for example using ravel().",
            DataConversionWarning,
        )
        return np.asarray(found).ravel()
    if len(shape) != 1:
        raise InputError(f"y should be a 1d array, got an array of shape {shape} instead: give one value for each row")
    return found
