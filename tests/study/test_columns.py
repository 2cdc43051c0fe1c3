"""Whatever a user gives as a schema, and what a file looks like."""

from dataclasses import replace
from pathlib import Path

import pytest

from parley.errors import ParleyError
from parley.learning.holding import CSV, Layout
from parley.learning.schema import schema_from_json
from parley.study.columns import columns_of, layout_for
from tests.study.test_study import COLUMNS

SCHEMA = """
delimiter = ";"
missing = ["", "none"]
target = { name = "ill", kind = "binary", positive = ["1"], negative = ["0"] }
features = [{ name = "age", low = 0, high = 100 }, { name = "dose", low = 0, high = 5 }]
"""


def test_a_schema_a_table_and_a_file_are_the_same_columns(tmp_path: Path) -> None:
    """A file says how many units it holds where it is an institution's; a study asks for none."""
    schema = schema_from_json(COLUMNS)
    path = tmp_path / "schema.toml"
    for text in (SCHEMA, "units = 300\n" + SCHEMA):
        path.write_text(text)
        found, layout = columns_of(str(path))
        assert found == schema
        assert layout == Layout(delimiter=";", missing=("", "none"))
    assert columns_of(schema) == columns_of(COLUMNS) == (schema, None)


def test_what_is_no_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    more = '["0"] }, { name = "b", kind = "number", low = 0, high = 1 }]'
    path.write_text(SCHEMA.replace("target = {", "targets = [{").replace('["0"] }', more))
    with pytest.raises(ParleyError, match=r"2 targets \(ill, b\)"):
        columns_of(path)
    path.write_text("[privacy]\nepsilon = 1.0\n")
    with pytest.raises(ParleyError, match=r"is a study: read it with parley\.study\.read"):
        columns_of(path)
    with pytest.raises(ParleyError, match="No such file"):
        columns_of(tmp_path / "nowhere.toml")


def test_a_draft_is_refused_before_a_person_has_confirmed_it(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text("draft = true\n" + SCHEMA)
    with pytest.raises(ParleyError, match="draft"):
        columns_of(path)


def test_a_files_form_is_told_by_its_schema_or_by_its_name() -> None:
    named, many = (
        schema_from_json(COLUMNS),
        schema_from_json({"features": {"count": 3, "low": 0, "high": 1}, "target": COLUMNS["target"]}),
    )
    semicolons = Layout(delimiter=";", missing=("none",))
    assert layout_for(Path("a.csv.gz"), named, None) == CSV
    assert layout_for(Path("a.data"), named, None) == CSV
    assert layout_for(Path("a9a.xz"), many, None).format == "libsvm"
    assert layout_for(Path("a.csv"), named, semicolons) == semicolons
    assert layout_for(Path("a.data"), named, semicolons) == semicolons
    assert layout_for(Path("a.parquet"), named, semicolons) == replace(Layout("parquet"), missing=("none",))
