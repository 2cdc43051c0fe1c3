"""A schema beside a file, for local eyes."""

from pathlib import Path

import pytest

from parley.learning.difference import Difference, difference
from parley.learning.draft import draft
from parley.learning.errors import DataError, SchemaError

SCHEMA = """\
units = 4
target = { name = "sick", kind = "binary", positive = ["1"], negative = ["0"] }
features = [
    { name = "age", low = 0, high = 1 },
    { kind = "category", name = "race", categories = ["a", "b"], other = "zero" },
    { name = "lost", low = 0, high = 1 },
    { name = "g{1..2}", low = -1, high = 1 },
]
"""
CSV = "age;race;sick;g1;g2;note\n41;a;1;0;0;x\n17;c;0;1;-1;y\n20;c;0;1;1;z\n99;?;2;1;1;z\n"


def found(folder: Path, schema: str = SCHEMA, text: str = CSV) -> Difference:
    (folder / "schema.toml").write_text(schema)
    (folder / "ours.csv").write_text(text)
    return difference(folder / "schema.toml", folder / "ours.csv")


def test_what_is_in_one_of_them_only(tmp_path: Path) -> None:
    said = found(tmp_path)
    assert said.absent == ["lost"]
    assert said.unused == ["note"]
    assert said.unlisted == {"race": {"c": 2}, "sick": {"2": 1}}
    assert [text.partition(":")[0] for text in said.problems] == [
        "ours.csv, line 5, column race is empty", "ours.csv, line 5, column sick has '2'",
    ]  # fmt: skip
    assert [text.partition(":")[0] for text in said.warnings] == ["age"]
    assert said.open == []
    assert not said.fits


def test_a_file_that_fits(tmp_path: Path) -> None:
    schema = SCHEMA.replace('    { name = "lost", low = 0, high = 1 },\n', "")
    assert found(tmp_path, schema, CSV.replace("99;?;2", "99;b;1")).fits


def test_the_layout_is_the_schemas_where_it_says_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cells where"):
        found(tmp_path, 'delimiter = ","\n' + SCHEMA, CSV.replace("x\n", "x,y\n"))


def test_a_draft_and_columns_that_are_not_complete_are_open(tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text(CSV)
    said = found(tmp_path, draft(tmp_path / "ours.csv", "sick"))
    assert any("it is a draft" in text for text in said.open)
    assert said.unused == []
    assert said.absent == []
    said = found(tmp_path, SCHEMA.replace(', name = "race"', ', name = "race", lo = 1'))
    assert said.open == ["line 5: race: no field 'lo', use categories, missing, name, other, source"]


def test_a_study_may_hold_the_columns(tmp_path: Path) -> None:
    inside = "[schema]\n" + SCHEMA.replace("units = 4\n", "")
    assert found(tmp_path, inside).unlisted == {"race": {"c": 2}, "sick": {"2": 1}}


def test_columns_without_names_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="diff compares tables"):
        found(tmp_path, "features = { count = 3, low = 0, high = 1 }\n")
