"""Which files a study names."""

from pathlib import Path
from typing import Any

import pytest

from parley.study.errors import DocumentError
from parley.study.files import Files


@pytest.mark.parametrize(
    "body",
    [
        {"train": ["a.csv"]},
        {"train": ["images.gz", "labels.gz"], "parties": 4, "test": ["t.csv"]},
        {"parties": {"a": ["a.csv"], "b": ["b.csv"]}, "schema": "columns/schema.toml"},
        {"schema": "schema.toml"},
    ],
)
def test_it_reads_back_as_itself_from_any_folder(body: dict[str, Any], tmp_path: Path) -> None:
    found = Files.of(body, tmp_path)
    assert found.as_json(tmp_path) == body
    elsewhere = tmp_path / "other"
    again = Files.of(found.as_json(elsewhere), elsewhere)
    assert again.as_json(tmp_path) == {**body} or all("other" in str(path) for path in again.train)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"train": ["a.csv"], "parties": {"a": ["a.csv"]}}, "data.train: and the files of each party are both there"),
        ({"parties": 3}, "no train to share out"),
        ({"train": ["a.csv"], "parties": 0}, "data.parties: is 0"),
        ({"train": "a.csv"}, "data.train: is 'a.csv': give a list"),
        ({"parties": [["a.csv"]]}, "data.parties: a table was due"),
        ({"files": ["a.csv"]}, "data.files: is unknown"),
    ],
)
def test_a_slip_is_named(body: dict[str, Any], says: str) -> None:
    with pytest.raises(DocumentError, match=says):
        Files.of(body)
