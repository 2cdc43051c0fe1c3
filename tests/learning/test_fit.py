"""Whether an institution's records fit its schema."""

import copy
from typing import Any

import pytest

from parley.learning.fit import fit, population_rows
from parley.learning.holding import Holding, Layout, holding_from
from parley.learning.readers import Table
from parley.privacy.population import Identity
from tests.support.held import BODY, CELLS, HOLDING, data


def test_the_records_of_these_tests_fit() -> None:
    assert fit(data(), HOLDING).problems == []


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("age", "old", "row 3, column age: 'old' is not a number"),
        ("dose", "inf", "row 3, column dose: inf is not finite"),
        ("ward", "3", "row 3, column ward has '3'"),
        ("sick", "2", "row 3, column sick has '2'"),
        ("cost", "", "row 3, column cost is empty"),
    ],
)
def test_a_cell_that_does_not_fit_is_found_whatever_manifest_would_ask_for_it(
    column: str, cell: str, words: str
) -> None:
    cells = {name: list(values) for name, values in CELLS.items()}
    cells[column][2] = cell
    found = fit(Table(dict(cells), 6), HOLDING)
    assert any(words in problem for problem in found.problems)
    assert not found.fits


def test_every_column_is_reported_and_the_count_of_units() -> None:
    cells = {name: list(values) for name, values in CELLS.items()}
    cells["age"][0], cells["ward"][1] = "x", "9"
    problems = fit(Table(dict(cells), 6), HOLDING).problems
    assert [each.split("column ")[1].split()[0].rstrip(":") for each in problems] == ["age", "ward", "ward"]
    other = holding_from({**copy.deepcopy(BODY), "units": 7})
    assert fit(data(), other).problems == ["there are 6 units and schema.toml says 7: correct units, or the file"]
    del cells["dose"]
    assert any("no column 'dose'" in each for each in fit(Table(dict(cells), 6), HOLDING).problems)


def test_whose_rows_these_are_follows_from_the_file_and_from_no_columns_that_anybody_asks_for() -> None:
    whole = Identity.of("00", population_rows(data(), HOLDING))
    narrow = holding_from({**copy.deepcopy(BODY), "features": BODY["features"][:1], "targets": BODY["targets"][:1]})
    assert Identity.of("00", population_rows(data(), narrow)) == whole
    turned = Table(dict(reversed(CELLS.items())), 6)
    assert Identity.of("00", population_rows(turned, HOLDING)) == whole
    by_unit = Holding(
        Layout(), HOLDING.features[:1], HOLDING.targets[:1], 3, "patient", 2  # type: ignore[index]
    )  # fmt: skip
    visits: dict[str, Any] = {**CELLS, "patient": ["p", "p", "q", "q", "r", "r"]}
    one = Identity.of("00", population_rows(Table(visits, 6), by_unit))
    later = {**visits, "age": ["1", "2", "3", "4", "5", "6"]}
    assert Identity.of("00", population_rows(Table(later, 6), by_unit)) == one
    assert one.rows == 3
