"""Sentences that a lawyer can follow: figures are never better than the run's, and there are two."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.mpc.parts import parts_of
from parley.report.words import chance, cut, factor, not_promised, plainly, small, up
from tests.support.documents import manifest


def number(text: str) -> float:
    return float(text.replace(",", ""))


@given(st.floats(1e-9, 1e5), st.integers(3, 6))
def test_a_figure_is_rounded_against_us_and_by_no_more_than_its_last_digit(value: float, digits: int) -> None:
    shown = number(up(value, digits))
    assert value * (1 - 1e-11) <= shown <= value * (1 + 10 ** (1 - digits) + 1e-9)


@given(st.floats(1e-3, 10.0))
def test_a_factor_is_at_least_what_epsilon_says(epsilon: float) -> None:
    assert number(factor(epsilon)) >= math.exp(epsilon) * (1 - 1e-9)


@given(st.floats(1e-12, 0.4))
def test_a_chance_is_at_least_delta(delta: float) -> None:
    assert 1 / number(chance(delta).removeprefix("1 in ")) >= delta * (1 - 1e-8)


def test_figures_read_as_people_write_them() -> None:
    assert (up(1.5, 4), up(1.4999309, 4), up(3.70727, 4), up(0), up(math.inf)) == (
        "1.5",
        "1.5",
        "3.708",
        "0",
        "no number",
    )
    assert (factor(1.5), factor(7.1658), factor(20)) == ("4.49", "1,295", "4.9e+08")
    assert (chance(1e-5), chance(0.05)) == ("1 in 100,000", "1 in 20")
    assert (small(1e-5), small(2e-5), small(0.0), small(0.05), small(1e-9)) == (
        "0.00001",
        "0.00002",
        "0",
        "0.05",
        "1e-9",
    )


MODES = {
    "semi-honest": (parts_of("semi-honest", 0.5), 3.7),
    "semi-honest without own noise": (parts_of("semi-honest", 0.0), None),
    "covert": (parts_of("covert", 0.5), 3.7),
    "malicious": (parts_of("malicious", 1.0), 1.5),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("caught", [False, True])
def test_two_sentences_say_what_holds_against_whom_and_what_otherwise(mode: str, caught: bool) -> None:
    parts, lying = MODES[mode]
    first, second = plainly(parts, 1.5, lying, 1e-5, None, caught)
    for sentence in (first, second):
        assert sentence.endswith(".")
        assert ". " not in sentence
    said = f"{first} {second}"
    if mode == "malicious":
        assert "4.49 times" in first
        assert "whatever that aggregator does" in first
        assert "Against both aggregators together nothing is promised" in second
        return
    if caught:
        assert "proved to have departed" in first
        assert ("nothing is promised" in second) == (lying is None)
        assert "4.49" not in said
        return
    assert "any one record" in first
    assert "4.49 times as likely or as unlikely" in first
    assert "1 in 100,000" in first
    assert first.endswith("as long as that aggregator keeps to the protocol.")
    assert ("nothing is promised" if lying is None else "the factor is 40.5 in place of 4.49") in second
    assert ("found out, with proof" in second) == (mode == "covert")
    assert "against both aggregators together nothing is promised at all" in second


def test_a_guarantee_beyond_the_largest_is_called_none() -> None:
    assert "If it does not, nothing is promised" in plainly(parts_of("semi-honest", 0.5), 1.0, 10.1, 1e-5, None)[1]


def test_a_unit_of_a_column_is_named_and_counted_at_each_institution() -> None:
    said = plainly(parts_of("semi-honest", 0.5), 1.0, 2.0, 1e-5, "patient_nbr")[0]
    assert "any one patient_nbr at one institution" in said
    points = not_promised(manifest())
    assert any("North Trust and South Foundation are independent" in each for each in points)
    assert any("a person with several rows is protected less" in each for each in points)


def test_a_strangers_word_is_one_short_line() -> None:
    assert cut("a\x00b\n\u202ec" + "x" * 1000) == "a b c" + "x" * 54 + "…"
    assert cut("") == cut(" \n") == "–"
