"""A schema in plain words, which a person reads before they approve; what a stranger wrote cannot break the page."""

from typing import Any

import pytest

from parley.federation.columns import MOST_COLUMNS, MOST_LETTERS, listed, sentences

AGE = {"name": "age", "low": 20.0, "high": 90.0}
PAIN = {"name": "pain", "kind": "category", "categories": ["typical", "none"], "missing": "zero", "other": "zero"}
SICK = {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]}


def columns(*features: Any) -> str:
    return sentences({"features": list(features), "target": SICK})[0]


def test_every_column_has_its_bounds_and_what_becomes_of_its_odd_cells() -> None:
    assert columns(AGE, PAIN) == (
        "Columns, 2: age: a number cut to [20, 90], empty cells not allowed; "
        "pain: typical, none, empty cells left out, unlisted cells left out."
    )
    assert "empty cells the middle value" in columns({**AGE, "missing": "centre"})
    assert "empty cells become 7" in columns({**AGE, "missing": 7})
    many = {"name": "gene_{1..1800}", "low": -8.0, "high": 8.0, "transform": "log1p", "missing": "indicator"}
    assert columns(many, {**PAIN, "names": ["er", "pr"]}) == (
        "Columns, 1,802: gene_{1..1800}: a number cut to [-8, 8], turned by log1p, empty cells marked in a column of "
        "their own; er, pr: typical, none, empty cells left out, unlisted cells left out."
    )
    assert columns({"kind": "date", "name": "seen", "low": "1990-01-01", "high": "2000-01-01"}) == (
        "Columns, 1: seen: a day cut to [1990-01-01, 2000-01-01], empty cells not allowed."
    )
    dense = sentences({"features": {"count": 784, "low": 0.0, "high": 1.0}, "target": SICK})
    assert dense[0] == "Columns: 784 numbers, each cut to [0, 1]; no names."


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (SICK, "Target: sick, 1 against 0."),
        ({"name": "digit", "kind": "classes", "classes": ["a", "b"]}, "Target: digit, a, b."),
        ({"name": "dose", "kind": "number", "low": 0.0, "high": 20.0}, "Target: dose, a number cut to [0, 20]."),
        (None, "Target: None."),
    ],
)
def test_the_target_is_said_by_its_kind(target: Any, says: str) -> None:
    assert sentences({"features": [AGE], "target": target})[1] == says


def test_whose_record_it_is() -> None:
    assert sentences({"features": [AGE]})[2] == "Whose record it is: each row counts as one unit of its own."
    said = sentences({"features": [AGE], "unit": "patient", "records_per_unit": 3})[2]
    assert said == "Whose record it is: column patient; of each unit at most 3 records are used."


def test_many_columns_and_labels_are_counted_and_not_all_shown() -> None:
    many = [{**AGE, "name": f"c{place}"} for place in range(1000 + MOST_COLUMNS)]
    said = columns(*many)
    assert said.startswith(f"Columns, {len(many):,}: c0:")
    assert "; and 1,000 more: all of them are in the manifest's [schema]" in said
    assert f"c{MOST_COLUMNS - 1}:" in said
    assert f"c{MOST_COLUMNS}:" not in said
    labels = [f"l{place}" for place in range(11)]
    assert "l7 and 3 more" in columns({**PAIN, "categories": labels})
    assert listed(["a", "b"]) == "a, b"
    assert listed([f"p{place}" for place in range(MOST_COLUMNS + 2)]).endswith(f"p{MOST_COLUMNS - 1} and 2 more")


def test_a_strangers_text_is_cut_short_and_moves_no_cursor() -> None:
    said = columns({**AGE, "name": "age\x1b[2J\n" + "x" * 100_000})
    assert "age?[2J?xxx" in said
    assert "x" * MOST_LETTERS not in said
    assert said.isprintable()
    for odd in (None, 7, "features", {"count": None}, [None, 7, ["a"]], [{"kind": "category", "categories": 3}]):
        assert all(each.isprintable() for each in sentences({"features": odd, "target": odd}))
