"""An institution’s records and schema."""

import copy
from typing import Any

from parley.learning.holding import holding_from
from parley.learning.readers import Table

BODY: dict[str, Any] = {
    "units": 6,
    "features": [
        {"name": "age", "low": 20, "high": 90, "missing": "centre"},
        {"name": "dose", "low": -1e6, "high": 1e6, "missing": "zero"},
        {"kind": "category", "name": "pain", "categories": ["a", "b", "c"], "missing": "zero", "other": "c"},
        {"kind": "category", "name": "ward", "categories": ["1", "2"]},
        {"name": "income", "low": 0, "high": 1e6, "transform": "log1p", "missing": "indicator"},
        {"kind": "date", "name": "seen", "low": "1990-01-01", "high": "2020-12-31", "missing": "indicator"},
        {"kind": "category", "name": "blood", "categories": ["a", "b"], "missing": "indicator", "other": "zero"},
        {"name": "gene_{1..3}", "low": -8, "high": 8, "missing": "centre"},
    ],
    "targets": [
        {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        {"name": "ward", "kind": "classes", "classes": ["1", "2"]},
        {"name": "cost", "kind": "number", "low": 0, "high": 100},
    ],
}
HOLDING = holding_from(copy.deepcopy(BODY))
CELLS: dict[str, list[str]] = {
    "age": ["20", "90", "?", "1e300", "-5", "55.5"],
    "dose": ["1e6", "-1e6", "", "0", "999999.9", "3"],
    "pain": ["a", "z", "NA", "b", "c", "a"],
    "ward": ["1", "1.0", "2", "2", "+1", "1"],
    "sick": ["1", "0", "1", "1.0", "0", "0"],
    "cost": ["1", "-3", "1e9", "50", "99", "0"],
    "income": ["0", "1e6", "NaN", "-1", "1e300", "999999.99"],
    "seen": ["1990-01-01", "2020-12-31", "null", "0001-01-01", "9999-12-31", "2001-02-03 04:05:06"],
    "blood": ["a", "b", "N/A", "z", "", "a"],
    "gene_1": ["-8", "8", "nan", "1e9", "-1e9", "0"],
    "gene_2": ["1", "2", "3", "4", "5", "6"],
    "gene_3": ["", "?", "NA", "null", "7.9", "8"],
}


def data() -> Table:
    return Table(dict(CELLS), 6)
