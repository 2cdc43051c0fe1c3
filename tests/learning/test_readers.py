"""Formats of files."""

import bz2
import gzip
import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.learning.errors import DataError, SchemaError
from parley.learning.holding import Layout, layout_by_name
from parley.learning.readers import Table, read
from tests.support.tables_of_records import AGE, BINARY, SEX, load, table


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


def lines(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    found = read([path], Layout("jsonl"), "ill")
    assert isinstance(found, Table)
    return found.columns, found.count


def test_json_lines_keep_numbers_numbers_and_tell_empty_text_from_nothing(tmp_path: Path) -> None:
    found = lines(tmp_path, '[" age", "sex", "ill"]\n[75, "f", true]\n\n[0.5, null, "a\\nb"]\r\n[null, "", false]')
    assert found == ({"age": (75, 0.5, None), "sex": ("f", None, ""), "ill": (True, "a\nb", False)}, 3)
    assert lines(tmp_path, '["age"]\n') == ({"age": ()}, 0)
    with gzip.open(tmp_path / "data.jsonl.gz", "wt") as file:
        file.write('["age"]\n[1]\n')
    packed = read([tmp_path / "data.jsonl.gz"], Layout("jsonl"), "ill")
    assert isinstance(packed, Table)
    assert (packed.columns, packed.origin.at(0)) == ({"age": (1,)}, "data.jsonl.gz, line 2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no rows"),
        ('["age"]\n[1, 2]', "line 2 is no list of 1"),
        ('["age"]\n\n{"age": 1}', "line 3 is no list of 1"),
        ('["age"]\n[[1]]', "line 2 is no list of 1"),
        ('["age"]\n[1', "line 2 is not JSON"),
        ('["age", " age"]', "line 1 names no column, or one twice"),
        ("[]", "line 1 names no column"),
        ("[" * 100_000, "line 1 is not JSON"),
        ("age\n1", "line 1 is not JSON"),
    ],
)
def test_lines_that_are_no_table_are_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        lines(tmp_path, text)


def test_files_tell_their_form_by_their_name() -> None:
    forms = {
        name: layout_by_name(Path(name)).format for name in ("a.jsonl", "a.jsonl.gz", "a.csv.xz", "a.npz", "a.txt")
    }
    assert forms == {"a.jsonl": "jsonl", "a.jsonl.gz": "jsonl", "a.csv.xz": "csv", "a.npz": "npz", "a.txt": "libsvm"}
