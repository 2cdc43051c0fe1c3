"""Readers and schema: formats round-trip, errors name row and column, hostile values are refused or cut."""

import bz2
import gzip
import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.errors import DataError, QueryError, SchemaError
from parley.learning.holding import described
from parley.learning.models import Linear, Logistic
from parley.learning.records import Records
from parley.learning.records import load as load_by
from parley.learning.rows import SparseRows
from parley.learning.schema import schema_from_json
from parley.privacy.clipping import GradientClip
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.randomness import SystemRandomness
from parley.privacy.sampling import FixedSize

AGE: dict[str, Any] = {"name": "age", "low": 0, "high": 100, "centre": 50, "spread": 50}
SEX: dict[str, Any] = {"name": "sex", "kind": "category", "categories": ["f", "m"]}
BINARY: dict[str, Any] = {"name": "ill", "kind": "binary", "positive": ["yes", "1"], "negative": ["no", "0"]}


def load(paths: list[Path], body: dict[str, Any]) -> Records:
    layout, schema = described(body)
    return load_by(paths, schema, layout)


def table(tmp_path: Path, text: str, **changes: Any) -> Records:
    path = tmp_path / "data.csv"
    path.write_text(text)
    return load([path], {"format": "csv", "features": [AGE, SEX], "target": BINARY, **changes})


def test_a_csv_becomes_exact_integers(tmp_path: Path) -> None:
    found = table(tmp_path, "age,sex,ill\n75,f,yes\n0, m ,no\n150,m,1\n", intercept=True, bits=4)
    assert found.rows.take(np.arange(3)).dense().tolist() == [[8, 16, 0, 16], [-16, 0, 16, 16], [16, 0, 16, 16]]
    assert found.targets.tolist() == [1, 0, 1]
    assert found.adjusted == {"age": 1}  # 150 was cut to 100


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nan,f,yes", "row 2, column age: nan is not finite"),
        ("inf,f,yes", "row 2, column age: inf is not finite"),
        ("x,f,yes", "row 2, column age: 'x' is not a number"),
        ("?,f,yes", "row 2, column age is empty"),
        ("1,q,yes", "row 2, column sex has 'q'"),
        ("1,,yes", "row 2, column sex is empty"),
        ("1,f,maybe", "row 2, column ill has 'maybe'"),
        ("1,f", "row 2 has 2 cells"),
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


@pytest.mark.parametrize(("ending", "opener"), [(".xz", lzma.open), (".bz2", bz2.open), (".gz", gzip.open), ("", open)])
def test_libsvm_is_read_through_every_compression(tmp_path: Path, ending: str, opener: Any) -> None:
    path = tmp_path / f"data{ending}"
    with opener(path, "wb") as file:
        file.write(b"+1 1:1 3:0.5\n-1 2:-2 # a comment\n\n-1.0\n")
    body = {
        "format": "libsvm", "features": {"count": 3, "low": -1, "high": 1}, "bits": 3,
        "target": {"name": "label", "kind": "binary", "positive": ["1"], "negative": ["-1"]},
    }  # fmt: skip
    found = load([path], body)
    assert found.rows.take(np.arange(3)).dense().tolist() == [[8, 0, 4], [0, -8, 0], [0, 0, 0]]
    assert found.targets.tolist() == [1, 0, 0]


def test_wide_sparse_rows_stay_sparse_and_a_repeated_column_is_refused(tmp_path: Path) -> None:
    body = {
        "format": "libsvm", "features": {"count": 1000, "low": 0, "high": 1}, "nonzeros": 2, "intercept": True,
        "target": {"name": "label", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    }  # fmt: skip
    path = tmp_path / "data"
    path.write_text("1 7:1 900:0.25\n0 3:1\n1 1:1 2:1 3:1\n")
    found = load([path], body)
    assert isinstance(found.rows, SparseRows)
    dense = found.rows.take(np.arange(3)).dense() / 1024
    assert dense[0].nonzero()[0].tolist() == [6, 899, 1000]
    assert dense[2].nonzero()[0].tolist() == [0, 1, 1000]
    assert found.adjusted == {"non-zeros left out": 1}
    path.write_text("1 7:1 7:1\n")
    with pytest.raises(SchemaError, match="twice"):
        load([path], body)


def test_idx_and_npz_are_read_and_a_nan_is_named(tmp_path: Path) -> None:
    images, labels = tmp_path / "images.gz", tmp_path / "labels.gz"
    with gzip.open(images, "wb") as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, 2, 2, 2) + bytes([0, 255, 0, 0, 51, 0, 0, 0]))
    with gzip.open(labels, "wb") as file:
        file.write(struct.pack(">HBBI", 0, 8, 1, 2) + bytes([1, 0]))
    features = {"count": 4, "low": 0, "high": 255, "spread": 255}
    classes = {"name": "y", "kind": "classes", "classes": ["0", "1"]}
    body = {"format": "idx", "features": features, "target": classes, "bits": 8}
    found = load([images, labels], body)
    assert found.rows.take(np.arange(2)).dense().tolist() == [[0, 256, 0, 0], [51, 0, 0, 0]]
    assert found.targets.tolist() == [1, 0]

    path = tmp_path / "data.npz"
    np.savez(path, X=np.array([[0.0, 255], [np.nan, 1]]), y=np.array([0, 1]))
    with pytest.raises(SchemaError, match="row 2, column 1: nan"):
        load([path], {**body, "format": "npz", "features": {**features, "count": 2}})


def test_a_parquet_file_gives_the_same_records_as_its_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table({"age": [75, 0], "sex": ["f", "m"], "ill": ["yes", "no"]}), path)
    body = {"format": "parquet", "features": [AGE, SEX], "target": BINARY}
    found = load([path], body)
    expected = table(tmp_path, "age,sex,ill\n75,f,yes\n0,m,no\n")
    everyone = np.arange(2)
    assert (found.rows.take(everyone).dense() == expected.rows.take(everyone).dense()).all()


def test_a_schema_survives_json_and_refuses_unknown_fields() -> None:
    body = {"features": [AGE, SEX], "target": BINARY, "intercept": True}
    schema = schema_from_json(body)
    assert schema_from_json(schema.as_json()) == schema
    assert schema.dimension == 4
    assert schema.feature_bound == pytest.approx(3**0.5)
    with pytest.raises(SchemaError, match="no field 'lo'"):
        schema_from_json({**body, "features": [{**AGE, "lo": 1}]})


def grouped(tmp_path: Path, rows: int = 5) -> Records:
    lines = [f"{20 * row},{'fm'[row % 2]},{'yes' if row % 3 else 'no'},p{row // 2}" for row in range(rows)]
    text = "\n".join(["age,sex,ill,patient", *lines]) + "\n"
    return table(tmp_path, text, unit="patient", records_per_unit=2)


def test_a_units_records_are_summed_before_the_clip(tmp_path: Path) -> None:
    records = grouped(tmp_path)
    assert records.units == 3
    assert records.members.tolist() == [[0, 1], [2, 3], [4, -1]]
    model = Linear(3, Logistic())
    mechanism = Mechanism((Cohort("a", FixedSize(3, 3)),), GradientClip(0.4), 1.0, 1, Unit("patient"))
    encoding = Encoding.of(mechanism, 41, model.largest_limit)
    party = Contributor("a", records, model, encoding, SystemRandomness())
    theta = np.array([0.3, -0.2, 0.1])
    found = encoding.lattice(0).decode(party.contribution(Query(0, (theta,))))
    gradients = model.gradients(records.rows.take(np.arange(5)), records.targets, theta)
    sums = np.stack([gradients[:2].sum(axis=0), gradients[2:4].sum(axis=0), gradients[4]])
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(found, (sums * np.minimum(1, 0.4 / norms)).sum(axis=0), atol=1e-5)


def test_a_party_refuses_what_the_mechanism_does_not_admit(tmp_path: Path) -> None:
    records = grouped(tmp_path)
    model = Linear(3, Logistic())
    mechanism = Mechanism((Cohort("a", FixedSize(3, 1)),), GradientClip(0.4), 1.0, 2, Unit("patient"))
    encoding = Encoding.of(mechanism, 41, model.largest_limit)
    party = Contributor("a", records, model, encoding, SystemRandomness())
    zero = np.zeros(3)
    for query in (
        Query(0, (zero, zero)), Query(0, (np.zeros(4),)), Query(0, (np.full(3, np.nan),)),
        Query(0, (zero,), "model"), Query(0, (zero,), "losses"), Query(0, (zero,), "gradient", np.inf),
    ):  # fmt: skip
        with pytest.raises(QueryError):
            party.contribution(query)
    by_row = Mechanism((Cohort("a", FixedSize(3, 1)),), GradientClip(0.4), 1.0, 2)
    with pytest.raises(QueryError, match="grouped by patient"):
        Contributor("a", records, model, Encoding.of(by_row, 41, model.largest_limit), SystemRandomness())
    wrong_size = Mechanism((Cohort("a", FixedSize(4, 1)),), GradientClip(0.4), 1.0, 2, Unit("patient"))
    with pytest.raises(QueryError, match="3 units"):
        Contributor("a", records, model, Encoding.of(wrong_size, 41, model.largest_limit), SystemRandomness())
