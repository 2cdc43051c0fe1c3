"""What a column seems to be; nothing is guessed by how often a word is there."""

from collections.abc import Sequence
from typing import Any

import pytest

from parley.learning.days import DAY
from parley.learning.guess import MOST_WORDS, guess, guesses
from parley.learning.known import FLAG
from parley.learning.readers import Table

MANY = [str(place / 7) for place in range(200)]


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("dose", MANY, "number"),
        ("dose", [*MANY, "", "NaN", None, "?"], "number"),
        ("dose", ["1.5", "2.5", "high", *MANY], "number"),
        ("age", ["41", "17"] * 9, "number"),
        ("sick", ["0", "1", "1.0", ""] * 9, "number"),
        ("stage", ["1", "2", "3"] * 9, "category"),
        ("ward_id", [str(place % 40) for place in range(200)], "category"),
        ("patient_nbr", [str(place % 90) for place in range(200)], "identifier"),
        ("mrn", [f"M{place}" for place in range(200)], "identifier"),
        ("note", [f"text {place}" for place in range(200)], "text"),
        ("race", ["a", "b", "c"] * 9, "category"),
        ("empty", ["", "NA", None, "?"], "empty"),
        ("seen", ["2001-02-03", "1999-12-31", ""], "date"),
        ("seen", ["3.2.2001", "31.12.1999"], "date"),
        ("diagnosis", ["250.1", "V07", "E909", "V25", "V26", "E812", "E813", *MANY], "text"),
    ],
)
def test_kinds(name: str, cells: Sequence[Any], kind: str) -> None:
    assert guess(name, cells).kind == kind


def test_what_is_known_by_name_or_by_its_two_values() -> None:
    assert guess("sick", ["0", "1"]).known is FLAG
    age = guess("age", ["41", "17"])
    assert age.known is not None
    assert age.known.high == 120
    assert guess("dose", MANY).known is None


def test_a_name_tells_more_than_that_only_0_and_1_are_there() -> None:
    """That nobody here came twice is a fact of the records, and no bound."""
    visits = guess("num_visits", ["0", "1"] * 9).known
    assert visits is not None
    assert visits.high == 1000


def test_a_word_that_is_there_once_is_a_word() -> None:
    """And one that is there a thousand times is no better: a rule by counts would tell what is rare."""
    assert guess("race", ["a"] * 1000 + ["b"]).words == ("a", "b")
    words = [f"w{place}" for place in range(MOST_WORDS)]
    assert set(guess("race", words).words) == set(words)


def test_words_for_nothing_are_told_from_words() -> None:
    found = guess("dose", [*MANY, "-", "unknown", "NULL"])
    assert found.gaps == {"-", "unknown", "NULL"}
    assert found.odd == ()
    race = guess("race", ["a", "unknown", "NULL", "none"] * 3)
    assert race.words == ("a", "none", "unknown")
    assert race.gaps == {"NULL"}
    assert guess("dose", [*MANY, "high"]).odd == ("high",)


def test_forms_of_days() -> None:
    assert guess("seen", ["2001-02-03"]).form == DAY
    assert guess("seen", ["31/12/1999", "01/02/2003"]).form == "%d/%m/%Y"
    assert guess("seen", ["12/31/1999", "01/02/2003"]).form == "%m/%d/%Y"
    assert [each.name for each in guesses(Table({"a": ["1"], "b": ["2"]}, 1))] == ["a", "b"]
