"""Rows, sparse and dense."""

from pathlib import Path

import numpy as np
import pytest

from parley.learning.errors import SchemaError
from parley.learning.rows import SparseRows
from tests.support.tables_of_records import load


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
