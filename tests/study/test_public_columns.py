"""What columns mean comes from what was said, in any of the forms that people say it in."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from parley.errors import ParleyError
from parley.learning.columns import Number, Target, Uniform
from parley.learning.errors import SchemaError
from parley.learning.readers import Dense, Table
from parley.learning.schema import schema_from_json
from parley.study.estimator_input import InputError
from parley.study.public_columns import Columns, Given, columns_from, columns_within, names_of_features, rows_in

AGE = {"name": "age", "low": 0, "high": 100}
TARGET = {"name": "y", "kind": "number", "low": 0, "high": 1}


@pytest.mark.parametrize(
    "bounds",
    [(-1, 3), [-1, 3], (np.int64(-1), 3.0), ([-1, -1], [3, 3]), (np.array([-1, -1]), 3), {"a": (-1, 3), "b": (-1, 3)}],
    ids=str,
)
def test_bounds_of_every_form_become_numbers_between_them(bounds: Any) -> None:
    columns = columns_within(bounds, ("a", "b"), 2)
    assert columns.features == (Number("a", -1, 3, 1, 2), Number("b", -1, 3, 1, 2))
    assert (columns.count, names_of_features(columns.features)) == (2, ["a", "b"])


def test_columns_without_names_are_counted_from_0() -> None:
    assert names_of_features(columns_within((0, 1), None, 3).features) == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (5, "bounds is '5': give .low, high."),
        ("ab", "bounds: low is 'a'"),
        ((1, 2, 3), "give .low, high. from public knowledge"),
        (([0, 0, 0], 1), r"low has the shape \(3,\) and X 2 columns"),
        ((0, [[1, 1]]), "high has the shape"),
        ({"a": (0, 1)}, "bounds has no 'b'"),
        ({"a": (0, 1), "b": 7}, "bounds of b is '7'"),
        ({"a": (0, 1), "b": (2, 2)}, "bounds of b: low 2 is not below high 2"),
        ((float("nan"), 1), "bounds of a: low nan is not below high 1"),
        ((0, float("inf")), "finite public number"),
    ],
)
def test_wrong_bounds_are_named(bounds: Any, message: str) -> None:
    with pytest.raises(ParleyError, match=message):
        columns_within(bounds, ("a", "b"), 2)
    with pytest.raises(InputError, match="X has no names"):
        columns_within({"a": (0, 1)}, None, 1)


def test_a_schema_of_every_form_gives_its_features_and_whose_record_a_row_is(tmp_path: Path) -> None:
    wanted = Columns((Number("age", 0, 100, 50, 50),))
    (tmp_path / "schema.toml").write_text('features = [{ name = "age", low = 0, high = 100 }]\n')
    whole = schema_from_json({"features": [AGE], "target": TARGET})
    for given in ([AGE], (AGE,), {"features": [AGE], "target": TARGET}, whole, tmp_path / "schema.toml"):
        assert columns_from(given) == wanted
    assert columns_from(str(tmp_path / "schema.toml")) == wanted
    owned = columns_from({"features": [AGE], "unit": "patient", "records_per_unit": 3})
    assert (owned.unit, owned.records_per_unit) == ("patient", 3)
    made = owned.schema(Target("y", "number", low=0, high=1))
    assert (made.unit, made.records_per_unit, made.intercept) == ("patient", 3, True)
    for wrong in (5, {"columns": [AGE]}):
        with pytest.raises(InputError, match="schema is no schema"):
            columns_from(wrong)
    with pytest.raises(InputError, match=r"absent\.toml"):
        columns_from(tmp_path / "absent.toml")


def test_a_schema_toml_says_what_counts_as_empty_and_a_draft_is_none() -> None:
    coded = {"kind": "category", "name": "code", "categories": ["-9", "1"], "missing": "zero"}
    columns = columns_from({"features": [{**AGE, "missing": "centre"}, coded], "missing": ["-9"], "target": TARGET})
    found = columns.read({"age": [-9, "-9", 5], "code": [-9, "1", 1], "more": [-9, -9, -9]})
    assert found == Table({"age": [None, None, 5], "code": [-9, "1", 1], "more": [-9, -9, -9]}, 3)
    plain = Table({"age": [-9]}, 1)
    assert columns_from([AGE]).read(plain) is plain
    with pytest.raises(SchemaError, match="this schema is a draft"):
        columns_from({"features": [AGE], "draft": True})
    assert names_of_features(columns_from({"features": [AGE, {**AGE, "name": "y"}], "target": TARGET}).features) == [
        "age"
    ]


def test_records_are_known_by_their_owner_or_by_all_their_features() -> None:
    table = Table({"patient": ["p", "q"], "age": [1, 2], "more": [3, 4]}, 2)
    features = (Number("age", 0, 100, 50, 50),)
    assert Given(Columns(features), table, ["age"]).identifying == [[1, 2]]
    assert Given(Columns(features, "patient"), table, ["age"]).identifying == [["p", "q"]]
    matrix = Dense(np.array([[1.0, 2.0]]), np.zeros(1))
    given = Given(Columns(Uniform(2, 0, 1)), matrix, None)
    assert np.array(given.identifying).tolist() == [[1.0], [2.0]]
    assert given.labelled("y", ["1"]).labels.tolist() == ["1"]  # type: ignore[union-attr]
    assert (rows_in(table), rows_in(matrix), given.columns.count) == (2, 1, 2)


def test_the_targets_name_is_that_of_y_unless_a_column_has_it() -> None:
    table = Table({"y": [1], "sick": [2]}, 1)
    given = Given(Columns(()), table, None)
    assert given.free_name([0]) == "y_"
    assert given.free_name(pandas.Series([0], name="outcome")) == "outcome"
    assert given.free_name(pandas.Series([0], name="sick")) == "sick_"
