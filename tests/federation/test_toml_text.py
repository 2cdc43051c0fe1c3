"""Whatever table is written, `tomllib` reads the same one back."""

import tomllib
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from parley.federation.toml_text import toml_text

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False), WORDS)
TABLES = st.recursive(
    st.dictionaries(WORDS, PLAIN, max_size=3),
    lambda inner: st.dictionaries(
        WORDS, st.one_of(PLAIN, st.lists(PLAIN, max_size=3), inner, st.lists(inner, max_size=3)), max_size=4
    ),
    max_leaves=12,
)


@given(TABLES)
def test_a_table_reads_back_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(table)) == table


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        toml_text({"epsilon": number})
