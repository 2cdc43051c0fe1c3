"""Tables of a document: all that is wrong with it is said, in words and at once."""

import hashlib
import json
from typing import Any

import pytest

from parley.demo.recipe import STUDY
from parley.learning import columns
from parley.learning.errors import MOST_SAID, SchemaError
from parley.learning.holding import described, holding_from
from parley.learning.schema import Schema, schema_from_json
from parley.research.experiments import public_schemas

TARGET = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
BEFORE = {
    "ADULT": "8cd17173bf0dd2762661361b0c80e45cf524ec6b36b63aa973be1418a6762a04",
    "BANK": "0b2a78c37e931cdf9a97f644be5af2a0c39cd1da6a3412716dbff1c2a462bf33",
    "BIKE": "83092a0dd39ecc6b3c9b4a41ba914ef331249cb9bbed052455b47277dc62e11d",
    "CREDIT": "06263898c78729755c9221989bb462532fccd3eb90214804cabc42dcf36ef754",
    "WINE": "7ea71e9d5b37bd333ce18b7b7cf0f5c84665b28f26fba146a4dfe92c4a2262ce",
    "demo": "2e5490a596e25f53679b1e82fd236d1d89467bca5b8740becfbc03cb5d8279ce",
    "uniform": "151a6de6b46bb1148cc0a194d28f9cce952b191dd93d6b096d6b16c82a585eec",
}
"""SHA-256 of schemas as version 0.1 wrote them before columns had transforms, dates, patterns or sources."""
UNIFORM: dict[str, Any] = {
    "features": {"count": 123, "low": 0, "high": 1, "whole": True}, "nonzeros": 14,
    "target": {"name": "y", "kind": "classes", "classes": ["a", "b"]}, "unit": None,
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE)
def test_manifests_of_earlier_versions_keep_their_digests(name: str) -> None:
    if name == "demo":
        schema = STUDY.schema
    else:
        schema = schema_from_json(UNIFORM) if name == "uniform" else described(dict(getattr(public_schemas, name)))[1]
    assert hashlib.sha256(json.dumps(schema.as_json()).encode()).hexdigest() == BEFORE[name]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"name": "age"}, "age: give low and high"),
        ({"name": "age", "low": 0}, "age: give high"),
        ({"name": "age", "low": 0, "high": "old"}, "age: high is old, give a finite public number"),
        ({"name": "race", "kind": "category"}, "race: give categories"),
        ({"name": "race", "categories": ["a"]}, 'race: has categories and no kind, write kind = "category"'),
        ({"name": "seen", "kind": "date", "low": "2000-01-01"}, "seen: give high"),
        ({"name": "seen", "kind": "day"}, "seen: kind is 'day', use number, date or category"),
        ({"name": "age", "lo": 0, "high": 1}, "age: no field 'lo', use .*; give low"),
        ({"kind": "number", "low": 0, "high": 1}, "a feature: give name"),
        ("age", "features: each is a table with name, low and high"),
    ],
)
def test_no_message_is_pythons(column: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        schema_from_json({"features": [column], "target": TARGET})
    assert "__init__" not in str(caught.value)
    assert "argument" not in str(caught.value)


def test_a_number_that_is_predicted_has_bounds() -> None:
    for body in ({"name": "cost", "kind": "number"}, {"name": "cost", "kind": "number", "low": 0}):
        with pytest.raises(SchemaError, match="cost: give low and high, the public bounds of what is predicted"):
            schema_from_json({"features": [{"name": "age", "low": 0, "high": 1}], "target": body})


def test_everything_that_is_wrong_is_said_at_once() -> None:
    body = {
        "units": 0, "delimiter": ";;", "intercept": True, "features": [
            {"name": "age"}, {"name": "sex", "kind": "category"}, {"name": "bmi", "low": 1, "high": 70},
            {"name": "dose", "low": 5, "high": 1},
        ], "target": {"name": "cost", "kind": "number"},
    }  # fmt: skip
    with pytest.raises(SchemaError) as caught:
        holding_from(body)
    places = [each.where for each in caught.value.problems]
    assert places == ["intercept", "", "cost", "age", "sex", "dose"]
    for words in ("for a study to choose", "delimiter", "cost: give", "age: give", "sex: give", "dose: low 5 is not"):
        assert words in str(caught.value)


def test_a_strangers_many_errors_make_no_long_message() -> None:
    with pytest.raises(SchemaError) as caught:
        schema_from_json({"features": [{"name": f"c{place}"} for place in range(5000)], "target": TARGET})
    assert len(caught.value.problems) == 5000
    assert str(caught.value).endswith(f"and {5000 - MOST_SAID:,} more")


def test_no_reader_of_a_schema_takes_a_draft() -> None:
    body = {"features": [{"name": "age", "low": 0, "high": 1}], "target": TARGET}
    for read in (schema_from_json, described, lambda body: holding_from({**body, "units": 3})):
        read(dict(body))
        for mark in (True, False, "no"):
            with pytest.raises(SchemaError, match="this schema is a draft"):
                read({**body, "draft": mark})


def test_the_cost_of_a_short_document_for_many_columns_grows_with_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its categories are checked once and not for each column: a stranger's manifest of 1 MB would take hours."""
    checked: list[str] = []
    asked: list[Schema] = []
    monkeypatch.setattr(columns, "check_distinct", lambda where, labels: checked.append(where))
    bits = Schema.fraction_bits

    def counted(schema: Schema) -> int:
        asked.append(schema)
        return int(bits.__get__(schema, Schema))

    monkeypatch.setattr(Schema, "fraction_bits", property(counted))
    feature = {"name": "gene_{1..2000}", "kind": "category", "categories": [f"c{place}" for place in range(500)]}
    schema = schema_from_json({"features": [feature], "target": TARGET})
    assert (schema.width, schema.as_json()["features"][0]["name"]) == (1_000_000, "gene_{1..2000}")
    assert (len(checked) < 5, len(asked) < 5) == (True, True)
    with pytest.raises(SchemaError, match="a name is"):
        schema_from_json({"features": [{**feature, "name": "a{1..2}\n"}], "target": TARGET})
