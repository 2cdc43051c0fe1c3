"""Made-up rows: they fit the schema, can be learned from, and follow from public words alone."""

import csv
from datetime import date
from typing import Any

import numpy as np
import pytest

from parley.learning.metrics import metrics
from parley.learning.records import encode
from parley.study.errors import StudyError
from parley.study.frames import data_of
from parley.study.imitation import EMPTY
from parley.study.study import Study
from tests.study.test_plan import QUICK

FEATURES: list[dict[str, Any]] = [
    {"name": "age", "low": 20, "high": 90},
    {"name": "dose", "low": 0, "high": 1000, "transform": "log1p", "missing": "indicator"},
    {"name": "since", "kind": "date", "low": "2000-01-01", "high": "2010-12-31", "missing": "centre"},
    {"name": "sex", "kind": "category", "categories": ["f", "m"], "missing": "zero"},
    {"name": "site", "kind": "category", "categories": ["one", "two", "three"]},
]
BINARY = {"name": "ill", "kind": "binary", "positive": ["3", "4"], "negative": ["0"]}
CLASSES = {"name": "ill", "kind": "classes", "classes": ["a", "b", "c"]}
NUMBER = {"name": "cost", "kind": "number", "low": 0, "high": 500, "centre": 100, "spread": 50}


def study(target: dict[str, Any] = BINARY, model: str = "logistic", **changes: Any) -> Study:
    columns = {"features": FEATURES, "target": target, "intercept": True, **changes}
    return Study(columns, model=model, epsilon=3.0, algorithm=QUICK)


def test_every_cell_fits_the_schema_and_only_what_may_be_empty_is() -> None:
    wanted = study()
    table = wanted.made_up(4000)
    assert list(table) == [*(each["name"] for each in FEATURES), "ill"]
    assert {len(column) for column in table.values()} == {4000}
    assert all(20 <= cell <= 90 for cell in table["age"])
    assert all(0 <= cell <= 1000 for cell in table["dose"] if cell is not None)
    assert all(date(2000, 1, 1) <= date.fromisoformat(cell) <= date(2010, 12, 31) for cell in table["since"] if cell)
    assert (set(table["sex"]), set(table["site"])) == ({"f", "m", None}, {"one", "two", "three"})
    assert set(table["ill"]) == {"0", "3", "4"}
    for name in ("dose", "since", "sex"):
        assert table[name].count(None) / 4000 == pytest.approx(EMPTY, abs=0.02)
    assert None not in table["age"] + table["site"] + table["ill"]
    assert not encode(data_of(table, wanted.schema), wanted.schema).adjusted


def test_a_seed_gives_the_same_rows_again_and_another_one_others_of_the_same_planted_model() -> None:
    wanted = study()
    assert wanted.made_up(50) == wanted.made_up(50)
    assert wanted.made_up(50, seed=1) != wanted.made_up(50)
    assert wanted.replaced(epsilon=1.0).made_up(50) == wanted.made_up(50)
    assert not {tuple(row) for row in _rows(wanted.made_up(200, 1))} & {
        tuple(row) for row in _rows(wanted.made_up(200))
    }


def _rows(table: dict[str, list[Any]]) -> list[list[Any]]:
    return [list(row) for row in zip(*table.values(), strict=True)]


@pytest.mark.parametrize(
    ("target", "model", "measure", "least"),
    [(BINARY, "logistic", "auc", 0.75), (CLASSES, "softmax", "accuracy", 0.5), (NUMBER, "linear", "r2", 0.4)],
)
def test_what_is_learned_on_one_table_holds_on_another_and_privacy_is_seen_to_cost(
    target: dict[str, Any], model: str, measure: str, least: float
) -> None:
    wanted = study(target, model).replaced(algorithm="auto")
    found = wanted.simulate(wanted.made_up(4000), test=wanted.made_up(2000, seed=1), seeds=1)
    assert found.without_privacy[measure] > least
    assert found.quality[measure].mean > found.constant.get(measure, 0.0)


def test_a_perfect_model_is_not_perfect() -> None:
    """Answers are drawn by the odds: who has an AUC of 1 on them looks at the answers."""
    wanted = study()
    table = wanted.made_up(3000)
    records = encode(data_of(table, wanted.schema), wanted.schema)
    model = wanted.new_model()
    theta = np.zeros(model.dimension)
    for _ in range(300):
        theta -= 0.5 * model.gradients(records.rows.take(np.arange(3000)), records.targets, theta).mean(axis=0)
    assert 0.75 < metrics(model, records, theta, wanted.schema.target)["auc"].value < 0.95


@pytest.mark.parametrize("more", [{}, {"whole": True, "low": 0, "high": 9}])
def test_features_under_one_bound_have_names_of_their_own(more: dict[str, Any]) -> None:
    wanted = study(features={"count": 12, "low": -1, "high": 1, **more})
    table = wanted.made_up(300)
    assert list(table) == [*(f"x{index}" for index in range(1, 13)), "ill"]
    assert wanted.simulate(table, seeds=1).quality


def test_units_have_as_many_records_as_they_may() -> None:
    wanted = study(unit="patient", records_per_unit=4)
    table = wanted.made_up(100)
    counts = [table["patient"].count(each) for each in set(table["patient"])]
    assert set(counts) == {2}
    assert wanted.simulate(table, seeds=1).fit.parties == {"party-1": 40}


@pytest.mark.parametrize("records", [0, -1, True, 2.5, 10**8])
def test_a_number_of_rows_that_is_none_is_refused(records: Any) -> None:
    with pytest.raises(StudyError, match="give a whole number from 1"):
        study().made_up(records)


def test_no_record_can_have_a_part_in_it(tmp_path: Any) -> None:
    """A study whose files hold something gives the same rows as one without files."""
    with (tmp_path / "records.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "dose", "since", "sex", "site", "ill"])
        rows.writerows([[33, 5, "2001-01-01", "f", "one", 3]] * 40)
    with_files = study().replaced(data={"train": [str(tmp_path / "records.csv")]})
    assert with_files.made_up(30) == study().made_up(30)
