"""Which cells are empty, and where a cell is that cannot be read."""

import bz2
import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.learning.cells import emptiness, encode_column, encode_target
from parley.learning.checks import label_of
from parley.learning.columns import Number, Target
from parley.learning.errors import DataError, SchemaError
from parley.learning.holding import CSV, Layout
from parley.learning.readers import Table, lines_of, read
from parley.learning.records import encode
from parley.learning.schema import schema_from_json

TARGET = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}


@pytest.mark.parametrize("cell", ["", " ", "?", "NA", "NaN", "nan", " N/A ", "null", None, math.nan, np.float64("nan")])
def test_what_is_usually_written_for_nothing_is_nothing(cell: Any) -> None:
    assert emptiness(CSV.missing)(cell)


@pytest.mark.parametrize("cell", ["0", 0, "none", "inf", 1.5, "NULLE", datetime.date(2000, 1, 1), False])
def test_everything_else_is_something(cell: Any) -> None:
    assert not emptiness(CSV.missing)(cell)


def test_a_number_that_means_nothing_does_so_in_every_spelling_of_a_file_of_numbers() -> None:
    empty = emptiness(("", "-9"))
    assert all(empty(cell) for cell in ("-9", -9, -9.0, np.int64(-9), Decimal(-9)))
    assert not empty(math.nan)
    assert not empty("nan")


def test_an_institution_that_lists_no_nan_has_it_refused() -> None:
    column = Number("c", 0, 1, 0, 1, "zero")
    for cell in ("nan", math.nan):
        with pytest.raises(SchemaError, match="row 1, column c: nan is not finite"):
            encode_column(Table({"c": [cell]}, 1), column, Layout(missing=("",)), {}, np.zeros((1, 1)), 1.0)


@pytest.mark.parametrize("cell", [10**400, "1e999", [1], "--1", datetime.date(2000, 1, 1)])
def test_what_is_no_number_is_an_error_with_its_place_and_nothing_else(cell: Any) -> None:
    with pytest.raises(SchemaError, match="row 2, column c"):
        encode_column(Table({"c": [1, cell]}, 2), Number("c", 0, 1, 0, 1), CSV, {}, np.zeros((2, 1)), 1.0)


def test_a_target_that_is_empty_or_not_listed_is_refused() -> None:
    with pytest.raises(SchemaError, match="row 2, column y is empty"):
        encode_target(Table({"y": ["1", "null"]}, 2), Target("y", "number", low=0, high=1), {}, CSV)
    with pytest.raises(SchemaError, match="row 1, column y has '2': the schema does not list it"):
        encode_target(Table({"y": ["2"]}, 1), Target("y", "binary", ("1",), ("0",)), {}, CSV)


def place_of(path: Path, text: str, **layout: Any) -> str:
    packed = bz2.compress(text.encode()) if path.suffix == ".bz2" else text.encode()
    path.write_bytes(packed)
    schema = schema_from_json({"features": [{"name": "age", "low": 0, "high": 120}], "target": TARGET})
    with pytest.raises((SchemaError, DataError)) as caught:
        described = Layout(**layout)
        encode(read([path], described, "y"), schema, described)
    return str(caught.value).partition(":")[0]


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "ours.csv"
    assert place_of(path, "age,y\n1,1\nold,0\n") == "ours.csv, line 3, column age"
    assert place_of(path, "age,y\r\n\r\n1,1\r\n\r\nold,0\r\n") == "ours.csv, line 5, column age"
    assert place_of(path, "# about\n\nage,y\n1,1\nold,0\n", skip=2) == "ours.csv, line 5, column age"
    assert place_of(path, "1,1\nold,0\n", header=False, columns=("age", "y")) == "ours.csv, line 2, column age"
    assert place_of(path, 'age,y,note\n1,1,"two\nlines"\nold,0,x\n') == "ours.csv, line 4, column age"
    assert place_of(path, "age,y,note\n1,1,a\x0cb\u2028c\nold,0,x\n") == "ours.csv, line 3, column age"
    assert place_of(path, "age,y\n1,1\n\n2\n").startswith("ours.csv, line 4 has 1 cells")
    assert place_of(tmp_path / "ours.csv.bz2", "age,y\nold,1\n") == "ours.csv.bz2, line 2, column age"
    assert lines_of("a\r\nb\rc\n") == ["a", "b", "c"]
    assert lines_of("") == []


def test_a_file_without_lines_has_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "ours.parquet"
    parquet.write_table(pyarrow.table({"age": ["1", "old"], "y": ["1", "0"]}), path)
    schema = schema_from_json({"features": [{"name": "age", "low": 0, "high": 120}], "target": TARGET})
    with pytest.raises(SchemaError, match=r"^ours\.parquet, row 2, column age: 'old'"):
        encode(read([path], Layout("parquet"), "y"), schema)
    text = tmp_path / "ours.libsvm"
    text.write_text("# nothing\n1 1:0.5\n0 9:1\n")
    uniform = schema_from_json({"features": {"count": 2, "low": 0, "high": 1}, "target": TARGET})
    with pytest.raises(SchemaError, match=r"^ours\.libsvm, line 3, column 9 is not listed"):
        encode(read([text], Layout("libsvm"), "y"), uniform)


def test_one_spelling_per_number() -> None:
    assert {label_of(each) for each in (1, 1.0, "1", "+1", " 1.0 ")} == {"1"}
