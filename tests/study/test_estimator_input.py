"""X and y are checked in words that scikit-learn's users know, whatever holds them."""

import warnings
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy.sparse import csr_matrix

from parley.learning.columns import Uniform
from parley.learning.readers import Table
from parley.study.errors import StudyError
from parley.study.estimator_input import (
    InputError,
    column,
    finite,
    input_errors,
    labelled,
    matrix,
    matrix_like,
    measured,
    named,
    names_of,
    positive,
)
from parley.study.public_columns import columns_within

VALUES = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("X", "names"),
    [
        (VALUES, None),
        (np.array(VALUES, np.float32), None),
        (np.array(VALUES, object), None),
        (np.array([["1", "2"], ["3", "4.0"]]), None),
        (pandas.DataFrame(VALUES), None),
        (pandas.DataFrame(VALUES, columns=["a", "b"]), ("a", "b")),
        (polars.DataFrame(VALUES, schema=["a", "b"], orient="row"), ("a", "b")),
        (pyarrow.table({"a": [1, 3], "b": [2, 4]}), ("a", "b")),
        ({"a": [1, 3], "b": [2, 4]}, ("a", "b")),
    ],
)
def test_a_matrix_is_read_from_whatever_holds_it(X: Any, names: tuple[str, ...] | None) -> None:
    found = matrix(X)
    assert (found.values.tolist(), found.names) == (VALUES, names)
    many, named = Uniform(2, 0, 9), columns_within(([0, 0], 9), names, 2).features
    assert found.data(many).values.tolist() == VALUES  # type: ignore[union-attr]
    table = found.data(named)
    assert isinstance(table, Table)
    assert {name: list(cells) for name, cells in table.columns.items()} == dict(
        zip(names or ("x0", "x1"), ([1, 3], [2, 4]), strict=True)
    )
    assert names_of(X) == names


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (csr_matrix(VALUES), "sparse input is not supported"),
        ([1.0, 2.0], r"Expected 2D array, got 1D array instead, of shape \(2,\). Reshape your data"),
        (np.empty((0, 2)), r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required"),
        (np.empty((2, 0)), r"0 feature\(s\) \(shape=\(2, 0\)\) while a minimum of 1 is required"),
        ([[1.0, np.nan]], r"Input X contains NaN \(row 1, column 2\)"),
        ([[1.0, 2.0], [-np.inf, 0]], r"Input X contains infinity \(row 2, column 1\)"),
        (np.array([[1j]]), "Complex data not supported"),
        ([["a"]], "X holds what is no number"),
        (np.array([["2020-01-01"]], "datetime64[D]"), r"X holds datetime64\[D\]"),
        (pandas.DataFrame({"a": ["x"]}), "column a holds what is no number: give schema="),
    ],
)
def test_what_is_no_matrix_of_finite_numbers_is_refused(X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        matrix(X)


def test_other_columns_than_were_fitted_are_refused_and_names_on_one_side_are_said() -> None:
    frame = pandas.DataFrame(VALUES, columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert matrix_like(frame, "It", ("a", "b"), 2).values.tolist() == VALUES
        assert matrix_like(VALUES, "It", None, 2).values.tolist() == VALUES
    with pytest.warns(UserWarning, match="X has feature names, but It was fitted without feature names"):
        matrix_like(frame, "It", None, 2)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but It was fitted with feature names"):
        matrix_like(VALUES, "It", ("a", "b"), 2)
    with pytest.raises(InputError, match="X has 2 features, but It is expecting 3 features as input"):
        matrix_like(VALUES, "It", None, 3)
    for names, message in (
        (("b", "a"), "must be in the same order"),
        (("a", "c"), "unseen at fit time:\n- b\nFeature names seen at fit time, yet now missing:\n- c\n"),
    ):
        with pytest.raises(InputError, match=message):
            matrix_like(frame, "It", names, 2)
    with pytest.raises(TypeError, match="Feature names are only supported if all input features have string names"):
        matrix_like(pandas.DataFrame(VALUES, columns=["a", 1]), "It", None, 2)


@pytest.mark.parametrize(
    "y",
    [[1, 2], (1, 2), np.array([1, 2]), pandas.Series([1, 2]), polars.Series([1, 2]), pyarrow.array([1, 2])],
)
def test_y_is_read_from_whatever_holds_it(y: Any) -> None:
    assert column(y, "It", 2) == [1, 2]


def test_y_has_one_value_for_each_row() -> None:
    with pytest.raises(InputError, match=r"inconsistent numbers of samples: \[3, 2\]"):
        column([1, 2], "It", 3)
    with pytest.raises(InputError, match="It requires y to be passed, but the target y is None"):
        column(None, "It", 3)
    with pytest.raises(InputError, match=r"should be a 1d array, got an array of shape \(2, 2\)"):
        column(VALUES, "It", 2)
    for value, word in ((None, "NaN"), (float("nan"), "NaN"), (float("inf"), "infinity")):
        with pytest.raises(InputError, match=rf"Input y contains {word} \(row 2\)"):
            column([1.0, value], "It", 2)
    with pytest.warns(UserWarning, match="A column-vector y was passed when a 1d array was expected"):
        assert column([[1], [2]], "It", 2) == [1, 2]


def test_labels_are_those_that_were_declared() -> None:
    assert labelled(["b", "a"], ("b", "a", "c"), "It", 2) == (["a", "b", "c"], ["b", "a"])
    assert labelled([2.0, 1.0], "from y", "It", 2) == ([1.0, 2.0], ["2", "1"])
    assert labelled([True, False], [0, 1], "It", 2) == ([0, 1], ["1", "0"])
    assert labelled([0.5, 1.5], [0.5, 1.5], "It", 2)[1] == ["0.5", "1.5"]


def test_numbers_are_numbers() -> None:
    assert measured(["1", 2, np.float32(0.5)], "It", 3) == [1.0, 2.0, 0.5]
    with pytest.raises(InputError, match="y holds what is no number"):
        measured(["low", 2], "It", 2)
    assert positive("epsilon", np.int64(2)) == 2.0
    for wrong in (True, "1", None, float("nan"), float("inf"), [1]):
        with pytest.raises(InputError, match=r"epsilon is .*: give a finite number"):
            finite("epsilon", wrong)
    for wrong in (0, -1):
        with pytest.raises(InputError, match="give a number above 0"):
            positive("epsilon", wrong)


def test_whatever_parley_refuses_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no") as refused, input_errors():
        raise StudyError("no")
    assert isinstance(refused.value, InputError)
    with pytest.raises(KeyError), input_errors():
        raise KeyError("a defect stays one")


def test_what_is_not_installed_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'parley-federation\[accounting\]'"), input_errors():
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")
    with pytest.raises(ModuleNotFoundError, match="No module named 'mine'"), input_errors():
        raise ModuleNotFoundError("No module named 'mine'", name="mine")


def test_a_masked_matrix_is_refused_and_what_is_under_the_mask_is_not_read() -> None:
    with pytest.raises(InputError, match="X is masked"):
        matrix(np.ma.masked_array([[1.0, 2.0]], [[True, False]]))
    assert matrix(np.ma.masked_array([[1.0, 2.0]])).values.tolist() == [[1.0, 2.0]]


def test_numbers_beyond_every_float_are_refused_in_words() -> None:
    for make in (lambda: finite("epsilon", 10**400), lambda: matrix(np.array([[10**400]], object))):
        with pytest.raises(InputError):
            make()


def test_rows_of_different_lengths_are_refused_in_words() -> None:
    with pytest.raises(InputError, match="X has rows of different lengths: give as many numbers in each"):
        matrix([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("value", [5, None, ["auto"], {"kind": "x"}])
def test_an_algorithm_that_is_none_is_refused_in_words(value: Any) -> None:
    with pytest.raises(InputError, match=r"algorithm is .*: give a name, or a table such as"):
        named("algorithm", value, "name")
    assert named("algorithm", "auto", "name") == named("algorithm", {"name": "auto"}, "name") == {"name": "auto"}
