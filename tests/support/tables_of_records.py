"""Tables of records."""

from pathlib import Path
from typing import Any

from parley.learning.holding import described
from parley.learning.records import Records
from parley.learning.records import load as load_by

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
