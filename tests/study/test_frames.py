"""What a program holds in memory becomes what a file reader would have given; nothing missing is made up."""

import csv
import datetime as dt
import sqlite3
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from parley.learning.errors import DataError
from parley.learning.readers import Dense, Table
from parley.learning.records import encode
from parley.learning.schema import schema_from_json
from parley.study.frames import data_of, require, table_of

AGES: list[Any] = [63, None, 41]
PAIN: list[Any] = ["typical", "none", None]
FRAMES: dict[str, Any] = {
    "dictionary of columns": {"age": AGES, "pain": PAIN},
    "dictionary of arrays": {"age": np.array([63.0, np.nan, 41.0], np.float32), "pain": np.array(PAIN, object)},
    "dictionary of masked arrays": {"age": np.ma.array([63, 0, 41], mask=[False, True, False]), "pain": PAIN},
    "dictionaries": [{"age": age, "pain": pain} for age, pain in zip(AGES, PAIN, strict=True)],
    "array of dictionaries": np.array([{"age": a, "pain": p} for a, p in zip(AGES, PAIN, strict=True)], object),
    "pandas": pandas.DataFrame({"age": AGES, "pain": PAIN}),
    "pandas objects": pandas.DataFrame({"age": [63, pandas.NA, 41], "pain": ["typical", "none", np.nan]}, dtype=object),
    "pandas nullable": pandas.DataFrame({"age": AGES, "pain": PAIN}).astype({"age": "Int64", "pain": "string"}),
    "pandas categorical": pandas.DataFrame({"age": AGES, "pain": pandas.Categorical(PAIN)}),
    "pandas by arrow": pandas.DataFrame({"age": AGES, "pain": PAIN}).convert_dtypes(dtype_backend="pyarrow"),
    "polars": polars.DataFrame({"age": AGES, "pain": PAIN}),
    "polars NaN": polars.DataFrame(
        {"age": [63.0, float("nan"), 41.0], "pain": polars.Series(PAIN).cast(polars.Categorical)}
    ),
    "pyarrow": pyarrow.table({"age": AGES, "pain": PAIN}),
    "pyarrow batch": pyarrow.record_batch({"age": AGES, "pain": pyarrow.array(PAIN).dictionary_encode()}),
    "dictionary of series": {"age": pandas.Series(AGES), "pain": polars.Series(PAIN)},
}
"""One table in many forms."""


@pytest.mark.parametrize("given", FRAMES.values(), ids=FRAMES)
def test_one_table_is_one_table_whatever_holds_it(given: Any) -> None:
    found = table_of(given)
    assert isinstance(found, Table)
    assert (found.columns, found.count) == ({"age": AGES, "pain": PAIN}, 3)
    assert {type(cell) for cell in found.columns["age"]} <= {int, float, type(None)}
    assert table_of(found) is found


def test_truth_dates_and_decimals_stay_what_they_are() -> None:
    day, moment = dt.date(2020, 2, 29), dt.datetime(2020, 2, 29, 12, 30)
    frame = pandas.DataFrame({"well": [True, False], "seen": [moment, None], "cost": [Decimal("1.5"), None]})
    wanted = {"well": [True, False], "seen": [moment, None], "cost": [Decimal("1.5"), None]}
    for given in (frame, polars.from_pandas(frame), pyarrow.Table.from_pandas(frame), wanted):
        found = table_of(given)
        assert isinstance(found, Table)
        assert found.columns == wanted
        assert [type(cell) for cell in found.columns["well"]] == [bool, bool]
        assert type(found.columns["seen"][0]) is dt.datetime
    arrays = {"day": np.array(["2020-02-29", "NaT"], "datetime64[D]"), "at": np.array([moment, None], "datetime64[ns]")}
    assert table_of(arrays).columns == {"day": [day, None], "at": [moment, None]}  # type: ignore[union-attr]
    assert table_of([{"n": np.int32(1)}, {"n": np.datetime64(moment, "ns")}]).columns == {"n": [1, moment]}  # type: ignore[union-attr]


def test_a_matrix_has_no_names_unless_it_is_given_some() -> None:
    values = np.array([[1.0, 2.0], [3.0, np.nan]])
    found = table_of(values)
    assert isinstance(found, Dense)
    assert found.values is values
    assert table_of([[1, 2], [3, 4]]).values.tolist() == [[1, 2], [3, 4]]  # type: ignore[union-attr]
    for given in (values, values.tolist(), tuple(map(tuple, values))):
        named = table_of(given, ["a", "b"])
        assert isinstance(named, Table)
        assert named.columns == {"a": [1.0, 3.0], "b": [2.0, None]}
    structured = np.array([(1, "x"), (2, "y")], [("n", int), ("label", "U1")])
    assert table_of(structured).columns == {"n": [1, 2], "label": ["x", "y"]}  # type: ignore[union-attr]


def test_rows_with_names_are_read_by_their_names_and_never_by_their_order() -> None:
    frame = pandas.DataFrame({"pulse": [60, 70], "age": [63, 41]})
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    selected = database.execute("SELECT 60 AS pulse, 63 AS age UNION SELECT 70, 41 ORDER BY pulse").fetchall()
    database.close()
    given = {
        "database": selected,
        "named tuples": list(frame.itertuples()),
        "rows of a frame": [row for _, row in frame.iterrows()],
        "csv": csv.DictReader(["pulse,age", "60,63", "70,41"]),
    }
    for what, rows in given.items():
        found = table_of(rows, ["age", "pulse"])
        assert isinstance(found, Table), what
        assert {name: [int(cell) for cell in found.columns[name]] for name in ("age", "pulse")} == {
            "age": [63, 41],
            "pulse": [60, 70],
        }, what


def test_a_frame_of_a_library_that_is_not_read_is_no_matrix() -> None:
    class Lazy:
        columns = ("age", "pulse")

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise AssertionError("its names would be lost")

    with pytest.raises(DataError, match="Lazy is no frame that is read here: give one of pandas"):
        table_of(Lazy())


def test_a_frame_of_another_library_comes_through_arrow() -> None:
    class Foreign:
        def __init__(self, frame: Any) -> None:
            self.frame = frame

        def __arrow_c_stream__(self, requested: Any = None) -> Any:
            return self.frame.__arrow_c_stream__(requested)

    assert table_of(Foreign(polars.DataFrame({"age": AGES}))).columns == {"age": AGES}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("records.csv", "is text: give a frame"),
        (7, "int is no table"),
        ([1, 2, 3], "no list of rows"),
        (["ab", "cd"], "no list of rows"),
        ([{"age": 1}, [2]], "some rows are dictionaries and some are not"),
        ([{"age": 1}, {"aeg": 2}], "row 2 has no 'age'"),
        ([{"age": 1}, {"age": 2, "more": 3}], "row 2 has 'more', which row 1 has not"),
        ({"age": 63}, "column age is one int: give a list"),
        ({"age": "63"}, "column age is one str"),
        ({"age": {"a": 1}}, "column age is one dict"),
        ({"age": [1, 2], "pain": [1]}, "pain has 1 cells and age 2"),
        ({"1": [1], 1: [2]}, "column name '1' twice"),
        ({"age": np.zeros((2, 2))}, r"column age has the shape \(2, 2\)"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "column name 'a' twice"),
        (pandas.DataFrame([[1]], columns=pandas.MultiIndex.from_tuples([("a", "b")])), "several levels"),
        (pandas.Series([1]), "a pandas Series is one column"),
        (polars.Series([1]), "a polars Series is one column"),
        (polars.LazyFrame({"a": [1]}), "frame.collect"),
        (np.zeros(3), r"shape \(3,\) is no table"),
        (np.array([["a", "b"]]), "has no column names"),
        (np.ma.array([[1.0]], mask=[[True]]), "masked matrix"),
        ([[1, 2], [3]], "not equally long"),
        ([[1, [2]], [3, [4, 5]]], "the rows hold lists"),
    ],
)
def test_what_is_no_table_is_refused_with_a_word_on_what_to_give(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table_of(given)


def test_a_column_that_is_missing_or_misspelt_is_named() -> None:
    table = Table({"aeg": [1], "pulse": [2]}, 1)
    require(table, ["pulse"])
    with pytest.raises(DataError, match="no column 'age' in the data: it has aeg, pulse; did you mean it by 'aeg'"):
        require(table, ["age", "pulse"])
    with pytest.raises(DataError, match="it has none"):
        require(Table({}, 0), ["age"])


def test_data_take_the_form_that_a_schema_asks_for() -> None:
    target = {"name": "sick", "kind": "binary", "positive": ["True"], "negative": ["False"]}
    named = schema_from_json(
        {"features": [{"name": "age", "low": 0, "high": 100, "missing": "centre"}], "target": target}
    )
    frame = pandas.DataFrame({"id": ["x", "y"], "age": [75.0, np.nan], "sick": [True, False]})
    records = encode(data_of(frame, named), named)
    assert records.rows.take(np.arange(2)).dense().ravel().tolist() == [512.0, 0.0]
    assert records.targets.tolist() == [1.0, 0.0]
    assert data_of(np.array([[75.0]]), named).columns == {"age": [75.0]}  # type: ignore[union-attr]
    assert data_of(Dense(np.array([[75.0]]), np.zeros(1)), named).columns == {"age": [75.0]}  # type: ignore[union-attr]
    with pytest.raises(DataError, match="no column 'age'"):
        data_of(frame.rename(columns={"age": "years"}), named)
    with pytest.raises(DataError, match="a row needs 1 values in this order: age"):
        data_of(np.zeros((1, 2)), named)
    many = schema_from_json({"features": {"count": 2, "low": 0, "high": 1}, "target": target})
    matrix = data_of(pandas.DataFrame({"a": [0.5], "sick": [True], "b": [1]}), many)
    assert isinstance(matrix, Dense)
    assert (matrix.values.tolist(), matrix.labels.tolist()) == ([[0.5, 1.0]], [True])
    assert encode(matrix, many).targets.tolist() == [1.0]
    with pytest.raises(DataError, match="column a holds what is no number"):
        data_of({"a": ["x"], "b": [1]}, many)


def test_no_library_is_imported_that_has_not_made_what_is_given() -> None:
    program = (
        "import sys\nfrom parley.study.frames import table_of\n"
        "print(table_of({'a': [1]}), sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("[]"), done.stderr
