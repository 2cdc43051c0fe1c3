"""Public bounds by a column's name."""

import re

import pytest

from parley.learning.columns import Number
from parley.learning.known import KNOWN, known_bounds, words_of


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("age", 0, 120), ("Age_at_index", 0, 120), ("ageAtDiagnosis", 0, 120), ("patient age", 0, 120),
        ("trestbps", 60, 260), ("SystolicBP", 60, 260), ("diastolic_bp", 30, 160), ("pct_fat", 0, 100),
        ("num_medications", 0, 1000), ("number_inpatient", 0, 1000), ("time_in_hospital", 0, 365),
        ("annual-income", 0, 1e7), ("BMI", 10, 70), ("chol", 80, 500),
    ],
)  # fmt: skip
def test_a_name_that_tells_has_bounds(name: str, low: float, high: float) -> None:
    found = known_bounds(name)
    assert found is not None
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize("name", ["agent", "page", "dose", "x1", "stage", "", "country", "mileage", "usage", "gene_7"])
def test_a_name_that_does_not_tell_has_none(name: str) -> None:
    assert known_bounds(name) is None


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.why)
def test_every_entry_is_a_column_that_a_schema_takes_and_says_where_it_is_from(known: object) -> None:
    body = {"low": known.low, "high": known.high, "transform": known.transform}  # type: ignore[attr-defined]
    column = Number("c", centre=0, spread=1, source=known.source, **body)  # type: ignore[attr-defined]
    assert column.ends[0] < column.ends[1]
    assert re.compile(known.words)  # type: ignore[attr-defined]
    assert len(known.why) > 10  # type: ignore[attr-defined]


def test_names_are_read_as_words() -> None:
    assert words_of("ageAtIndex") == words_of("age_at_index") == words_of("Age-at.index") == "age at index"


def test_the_names_that_stand_for_an_entry_find_it() -> None:
    for known in KNOWN:
        for name in known.names.split(", "):
            assert known_bounds(name) is known, name
