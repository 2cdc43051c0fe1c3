"""Whose records they are: what is made up costs nothing, and one real cell among it makes it private."""

import csv
from pathlib import Path
from typing import Any

import pytest

from parley.study.fit_costs import SPENDING
from parley.study.model_file import load
from parley.study.study import Study
from tests.study.test_plan import QUICK
from tests.study.test_study import COLUMNS

STUDY = Study(COLUMNS, epsilon=3.0, algorithm=QUICK)


def spent() -> int:
    return SPENDING.everything.fits


def test_made_up_rows_cost_nothing_and_the_card_says_what_they_are(tmp_path: Path) -> None:
    before = spent()
    found = STUDY.simulate({"a": STUDY.made_up(400), "b": STUDY.made_up(400, 1)}, test=STUDY.made_up(200, 2), seeds=2)
    assert spent() == before
    assert found.as_json()["not_private"] == []
    assert "nothing is charged" in str(found)
    assert "Not private" not in str(found)
    found.save(tmp_path / "model.npz")
    card = load(tmp_path / "model.npz").card
    assert (card["records"], card["epsilon"], card["fits"]) == ("made up", None, None)
    assert "protects nobody's" in card["statement"]


def changed(table: dict[str, list[Any]], column: str) -> dict[str, list[Any]]:
    copy = {name: list(cells) for name, cells in table.items()}
    copy[column][0] = {"age": 50.5, "dose": 1.25}.get(column, "1" if copy["ill"][0] == "0" else "0")
    return copy


@pytest.mark.parametrize("column", ["age", "dose", "ill"])
def test_one_cell_that_is_another_makes_all_of_it_private(column: str) -> None:
    before = spent()
    found = STUDY.simulate(changed(STUDY.made_up(400), column), seeds=1)
    assert (found.fit.records, spent()) == ("private", before + 1)


def test_made_up_rows_beside_a_partys_real_ones_are_private() -> None:
    before = spent()
    real = changed(STUDY.made_up(400), "age")
    assert STUDY.simulate({"a": STUDY.made_up(400), "b": real}, seeds=1).fit.records == "private"
    assert spent() == before + 1


def test_rows_that_were_written_and_read_again_are_only_what_the_user_says(tmp_path: Path) -> None:
    """A file may have been changed by anybody."""
    with (tmp_path / "made-up.csv").open("w", newline="") as file:
        table = STUDY.made_up(300)
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))
    assert STUDY.simulate(tmp_path / "made-up.csv", seeds=1).fit.records == "private"
    before = spent()
    found = STUDY.simulate(tmp_path / "made-up.csv", seeds=1, public=True)
    assert (found.fit.records, spent()) == ("public", before)
    assert found.model.card["records"] == "public"
    assert found.model.card["evaluation"] is not None
