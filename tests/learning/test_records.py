"""Readers and schema: formats round-trip, errors name row and column, hostile values are refused or cut."""

from pathlib import Path

import numpy as np
import pytest

from parley.learning.errors import DataError, SchemaError
from parley.learning.holding import Layout
from parley.learning.readers import read
from parley.learning.records import encode
from parley.learning.schema import schema_from_json
from tests.support.tables_of_records import AGE, SEX, table


def test_a_csv_becomes_exact_integers(tmp_path: Path) -> None:
    found = table(tmp_path, "age,sex,ill\n75,f,yes\n0, m ,no\n150,m,1\n", intercept=True, bits=4)
    assert found.rows.take(np.arange(3)).dense().tolist() == [[8, 16, 0, 16], [-16, 0, 16, 16], [16, 0, 16, 16]]
    assert found.targets.tolist() == [1, 0, 1]
    assert found.adjusted == {"age": 1}  # 150 was cut to 100


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nan,f,yes", "data.csv, line 3, column age is empty"),
        ("inf,f,yes", "data.csv, line 3, column age: inf is not finite"),
        ("x,f,yes", "data.csv, line 3, column age: 'x' is not a number"),
        ("?,f,yes", "data.csv, line 3, column age is empty"),
        ("1,q,yes", "data.csv, line 3, column sex has 'q'"),
        ("1,,yes", "data.csv, line 3, column sex is empty"),
        ("1,f,maybe", "data.csv, line 3, column ill has 'maybe'"),
        ("1,f", "data.csv, line 3 has 2 cells"),
    ],
)
def test_what_the_schema_does_not_cover_is_refused_by_row_and_column(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises((SchemaError, DataError), match=message):
        table(tmp_path, f"age,sex,ill\n1,f,yes\n{row}\n")


def test_a_huge_finite_number_is_cut_to_the_bound(tmp_path: Path) -> None:
    found = table(tmp_path, "age,sex,ill\n1e308,f,yes\n-1e308,m,no\n", bits=4)
    assert found.rows.take(np.arange(2)).dense()[:, 0].tolist() == [16, -16]
    assert found.adjusted == {"age": 2}


def test_missing_values_follow_the_public_rule(tmp_path: Path) -> None:
    features = [{**AGE, "missing": "centre"}, {**SEX, "missing": "zero", "other": "m"}]
    found = table(tmp_path, "age,sex,ill\n?,,yes\n100,other,no\n", features=features, bits=4)
    assert found.rows.take(np.arange(2)).dense().tolist() == [[0, 0, 0], [16, 0, 16]]


def test_a_table_of_pixels_says_how_to_name_them(tmp_path: Path) -> None:
    (tmp_path / "pixels.csv").write_text("label,p0,p1\n1,0,255\n")
    body = {
        "features": {"count": 2, "low": 0, "high": 255},
        "target": {"name": "label", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    }
    data = read([tmp_path / "pixels.csv"], Layout("csv"), "label")
    with pytest.raises(SchemaError, match=r"by name, and `count` is for npz.*names = .*parley schema draft"):
        encode(data, schema_from_json(body), Layout("csv"))
