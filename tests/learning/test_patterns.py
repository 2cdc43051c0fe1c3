"""One entry for many columns."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.learning.errors import SchemaError
from parley.learning.patterns import MOST_EXPANDED, count_of, expanded, shortened
from parley.learning.schema import schema_from_json

TARGET = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}


def test_a_range_is_written_out() -> None:
    assert expanded("gene_{9..11}") == ["gene_9", "gene_10", "gene_11"]
    assert expanded("q{08..11}_a") == ["q08_a", "q09_a", "q10_a", "q11_a"]
    assert expanded("{0..2}") == ["0", "1", "2"]
    assert expanded("age") == ["age"]
    assert expanded("a{b..c}") == ["a{b..c}"]
    assert count_of("gene_{1..1800}") == 1800


@pytest.mark.parametrize("name", ["a{2..1}", "a{1..2}{1..2}", f"a{{1..{MOST_EXPANDED + 1}}}", "a{1..999999999}"])
def test_what_is_no_range_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match=r"give one range|stands? for over"):
        schema_from_json({"features": [{"name": name, "low": 0, "high": 1}], "target": TARGET})


def test_many_patterns_together_stand_for_no_more_than_one_may() -> None:
    half = MOST_EXPANDED // 2
    each = [{"name": f"{letter}_{{1..{half}}}", "low": 0, "high": 1} for letter in "abc"]
    assert schema_from_json({"features": each[:2], "target": TARGET}).width == MOST_EXPANDED
    with pytest.raises(SchemaError, match="over 16,384 columns"):
        schema_from_json({"features": each, "target": TARGET})


@given(st.lists(st.from_regex(r"[a-z]{0,2}[0-9]{0,3}[a-z]?", fullmatch=True), min_size=1, max_size=6, unique=True))
def test_a_short_form_stands_for_exactly_its_columns(names: list[str]) -> None:
    found = shortened(names)
    assert (expanded(found["name"]) if "name" in found else found["names"]) == names


@given(st.integers(0, 200), st.integers(1, 120), st.integers(0, 4))
def test_a_run_of_numbers_becomes_a_range(first: int, more: int, digits: int) -> None:
    names = [f"g{number:0{digits}d}x2" for number in range(first, first + more + 1)]
    found = shortened(names)
    assert (expanded(found["name"]) if "name" in found else found["names"]) == names
    if digits <= len(str(first)):
        assert "name" in found


def test_a_manifest_of_1_800_columns_is_short_and_reads_back() -> None:
    body: dict[str, Any] = {
        "features": [
            {"name": "age", "low": 0, "high": 120},
            {"name": "gene_{1..1800}", "low": -8, "high": 8, "missing": "centre"},
            {"names": ["er", "pr", "her2"], "kind": "category", "categories": ["+", "-"], "missing": "indicator"},
        ],
        "target": TARGET,
    }
    schema = schema_from_json(body)
    assert schema.width == 1 + 1800 + 9
    written = schema.as_json()
    assert len(written["features"]) == 3
    assert written["features"][1]["name"] == "gene_{1..1800}"
    assert written["features"][2]["names"] == ["er", "pr", "her2"]
    assert len(json.dumps(written)) < 1000
    assert schema_from_json(written) == schema
    assert schema_from_json(written).as_json() == written


def test_columns_that_were_written_one_by_one_stay_so() -> None:
    each = [{"name": f"gene_{place}", "low": -8, "high": 8} for place in range(300)]
    written = schema_from_json({"features": each, "target": TARGET}).as_json()
    assert len(written["features"]) == 300
    assert all("names" not in one for one in written["features"])


def test_a_study_may_leave_some_of_an_entry_out() -> None:
    whole = schema_from_json({"features": [{"name": "g{1..9}", "low": 0, "high": 1}], "target": TARGET})
    assert isinstance(whole.features, tuple)
    some = type(whole)(features=whole.features[:3] + whole.features[7:], target=whole.target)
    assert some.as_json()["features"][0]["names"] == ["g1", "g2", "g3", "g8", "g9"]
    assert schema_from_json(some.as_json()) == some


def test_a_name_that_looks_like_a_pattern_can_be_listed() -> None:
    schema = schema_from_json({"features": [{"names": ["a{1..2}"], "low": 0, "high": 1}], "target": TARGET})
    assert isinstance(schema.features, tuple)
    assert [each.name for each in schema.features] == ["a{1..2}"]
    assert schema_from_json(schema.as_json()) == schema


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"names": [], "low": 0, "high": 1}, "either name, or names"),
        ({"names": ["a"], "name": "b", "low": 0, "high": 1}, "either name, or names"),
        ({"names": "a", "low": 0, "high": 1}, "names is not a list"),
        ({"names": ["a", "a"], "low": 0, "high": 1}, "each column once, not twice: a"),
        ({"names": ["a", ""], "low": 0, "high": 1}, "name"),
        ({"low": 0, "high": 1}, "a feature: give name"),
        ({"name": 5, "low": 0, "high": 1}, "a name is '5'"),
    ],
)
def test_what_an_entry_may_not_be_is_named(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema_from_json({"features": [entry], "target": TARGET})
