"""docs/schema.md has every key of a schema, each with an example that is read as what it says."""

import re
import tomllib
from dataclasses import fields
from typing import Any

import pytest

from parley.learning.columns import Category, Date, Number, Target, Uniform
from parley.learning.errors import SchemaError
from parley.learning.holding import STUDY_FIELDS, Holding, Layout, described, holding_from
from parley.learning.known import KNOWN
from parley.learning.schema import Schema
from parley.learning.schema_tables import DRAFT
from parley.learning.transforms import Extractor, Scattering, transforms_as_json, transforms_from
from tests.docs.pages import ROOT, Page

PAGE = Page(ROOT / "docs/schema.md")
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| `(.+)` \|$", re.MULTILINE)
BINARY = {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]}
AGE = {"name": "age", "low": 0, "high": 100}


def written(kind: Any) -> set[str]:
    return {each.name for each in fields(kind) if not each.metadata.get("unwritten")}


ENTRY = {"kind", "names"}
KEYS: dict[str, set[str]] = {
    "What the file holds": written(Holding) - {"layout"} | {"target", DRAFT},
    "What the file looks like": written(Layout),
    "A number": written(Number) | ENTRY,
    "A date": written(Date) | ENTRY,
    "A category": written(Category) | ENTRY,
    "Columns without names": written(Uniform),
    "A target": written(Target),
    "A study's own": set(STUDY_FIELDS),
    "Scattering": written(Scattering) | {"kind"},
    "Several side by side, and an extractor of your own": written(Extractor),
}
"""By heading: what the code reads."""


def section(heading: str) -> str:
    return PAGE.text.split(f"### {heading}\n")[1].split("\n## ")[0].split("\n### ")[0]


def rows(heading: str) -> dict[str, str]:
    return {key: example for key, _, example in ROW.findall(section(heading))}


@pytest.mark.parametrize("heading", KEYS)
def test_every_key_is_there_and_none_that_is_gone(heading: str) -> None:
    assert set(rows(heading)) == KEYS[heading]


def test_a_studys_schema_has_the_keys_that_the_page_gives_it() -> None:
    assert written(Schema) == {"features", "target", "unit", "records_per_unit", "nonzeros", *STUDY_FIELDS}


def example(heading: str, key: str) -> tuple[str, Any]:
    (found,) = tomllib.loads(rows(heading)[key]).items()
    return found


def document(heading: str, key: str, value: Any) -> dict[str, Any]:
    """The least that is a schema with this in it."""
    body: dict[str, Any] = {"units": 300, "features": [AGE], "target": BINARY}
    part = {key: value}
    if heading in ("A number", "A date", "A category"):
        columns: dict[str, dict[str, Any]] = {
            "A number": AGE,
            "A date": {"kind": "date", "name": "seen", "low": "1980-01-01", "high": "2031-01-01"},
            "A category": {"kind": "category", "name": "pain", "categories": ["typical", "none"]},
        }
        column = columns[heading] | part
        if key == "names":
            del column["name"]
        return body | {"features": [column]}
    if heading == "Columns without names":
        return body | {"format": "npz", "features": {"count": 3, "low": 0, "high": 300} | part}
    if heading == "A target":
        kind = "number" if key in ("low", "high", "centre", "spread") else "classes" if key == "classes" else "binary"
        base: dict[str, dict[str, Any]] = {
            "number": {"name": "cost", "kind": "number", "low": 0, "high": 90},
            "classes": {"name": "kind", "kind": "classes"},
            "binary": BINARY,
        }
        return body | {"target": base[kind] | part}
    if key == "targets":
        del body["target"]
    if key == "nonzeros":
        body |= {"format": "libsvm", "features": {"count": 123, "low": 0, "high": 1}}
    if key == "records_per_unit":
        body["unit"] = "patient"
    return body | part


TRANSFORMS: dict[str, dict[str, Any]] = {
    "Scattering": {"kind": "scattering", "shape": [1, 28, 28]},
    "Several side by side, and an extractor of your own": {
        "kind": "torch:hospital.features:extract",
        "shape": [1, 28, 28],
        "columns": 8,
        "digest": "sha256:" + 64 * "1",
        "trained_on": "ImageNet",
        "declared_by": "somebody",
    },
}
CASES = [(heading, key) for heading, keys in KEYS.items() for key in sorted(keys)]


@pytest.mark.parametrize(("heading", "key"), CASES, ids=[f"{heading}: {key}" for heading, key in CASES])
def test_every_example_is_of_its_key_and_is_read(heading: str, key: str) -> None:
    named, value = example(heading, key)
    assert named == key
    if heading in TRANSFORMS:
        (entry,) = transforms_as_json(transforms_from(TRANSFORMS[heading] | {key: value}))
        assert entry[key] == value
        return
    body = document(heading, key, value)
    if key == DRAFT:
        with pytest.raises(SchemaError, match="is a draft"):
            holding_from(body)
    elif heading == "A study's own":
        del body["units"]
        if key == "transform":
            body |= {"format": "npz", "features": {"count": 64, "low": 0, "high": 1}}
            assert transforms_as_json(described(body)[1].transform)[0]["shape"] == value["shape"]
            return
        assert getattr(described(body)[1], key) == value
    else:
        holding = holding_from(body)
        if heading == "What the file looks like":
            found = getattr(holding.layout, key)
            assert (list(found) if isinstance(found, tuple) else found) == value


def test_the_documents_of_the_page_are_read() -> None:
    (block,) = [each for each in PAGE.code_blocks if "units = 300" in each]
    holding = holding_from(tomllib.loads(block))
    assert holding.units == 300
    assert next(holding.whole()).width == 1 + 1 + 2 + 2 + 1800


def test_the_public_bounds_are_the_codes() -> None:
    table = section("Public bounds by name")
    for known in KNOWN:
        names = ", ".join(f"`{name}`" for name in known.names.split(", "))
        assert f"| {names} | `{known.keys}` | {known.why} |" in table
    assert table.count("\n| `") == len(KNOWN)


def test_the_transforms_of_the_page_are_read() -> None:
    for block in [each for each in PAGE.code_blocks if "transform = " in each]:
        found = tomllib.loads(block)["transform"]
        made = transforms_from(found)
        assert [each.kind for each in made] == [
            each["kind"] for each in (found if isinstance(found, list) else [found])
        ]
    assert "3,969 features" in PAGE.text
    assert Scattering((1, 28, 28)).features == 3969
    assert Scattering((1, 28, 28), pool=4).features == 1296
