"""A study that starts from a model file and stops early: in a simulation, in its document and in its manifest."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.algorithms.early_stop import evaluated_at
from parley.federation.errors import ManifestError
from parley.federation.start_and_stop import StopEarly
from parley.learning.errors import ModelFileError
from parley.study import load, read
from parley.study.errors import StudyError
from parley.study.study import Study
from tests.study.test_plan import QUICK
from tests.study.test_simulate import PARTIES, PUBLIC, STUDY
from tests.study.test_study import COLUMNS

NAMES: dict[str, Any] = {
    "run": "heart-2",
    "federation": "cardio",
    "parties": {"a": 400, "b": 300},
    "aggregators": [{"name": "north", "legal_entity": "N"}, {"name": "south", "legal_entity": "S"}],
    "coordinator": {"name": "lead", "legal_entity": "L"},
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("start") / "start.npz"
    STUDY.simulate(PARTIES, test=PUBLIC, seeds=1).save(path)
    return path


@pytest.fixture(scope="module")
def open_start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("open") / "start.npz"
    STUDY.simulate(STUDY.made_up(500), test=STUDY.made_up(300, 1), seeds=1).save(path)
    return path


def test_a_simulation_starts_there_and_its_card_says_from_what(start: Path) -> None:
    still = {**QUICK, "step": 1e-9}
    found = STUDY.replaced(start=start, algorithm=still).simulate(PARTIES, test=PUBLIC, seeds=1)
    card, earlier = found.model.card, load(start).card
    assert card["start"]["digest"] == earlier["digest"]
    assert (card["start"]["private"], card["start"]["epsilon"]) == (True, earlier["epsilon"])
    assert np.allclose(found.fit.theta, load(start).theta, atol=1e-6)


def test_a_start_of_made_up_rows_is_open(open_start: Path) -> None:
    card = STUDY.replaced(start=open_start).simulate(PARTIES, test=PUBLIC, seeds=1).model.card
    assert card["start"]["private"] is False
    assert card["epsilon"] == pytest.approx(3.0, rel=1e-3)


def test_a_start_that_protects_nobody_is_refused(tmp_path: Path) -> None:
    """A private model from there would carry what the start tells of the records."""
    STUDY.simulate(PARTIES, test=PUBLIC, seeds=1, repeatable=True).save(tmp_path / "repeatable.npz")
    with pytest.raises(ModelFileError, match="without any protection"):
        STUDY.replaced(start=tmp_path / "repeatable.npz").simulate(PARTIES, test=PUBLIC, seeds=1)


def test_another_studys_model_is_refused(start: Path) -> None:
    other = Study({**COLUMNS, "intercept": False}, epsilon=3.0, algorithm=QUICK, start=start)
    with pytest.raises(ModelFileError, match="another model or other columns"):
        other.simulate(PARTIES, test=PUBLIC, seeds=1)


def test_an_algorithm_that_starts_from_nothing_says_so(start: Path) -> None:
    wanted = STUDY.replaced(start=start, algorithm="output-perturbation")
    with pytest.raises(StudyError, match="fits from nothing: leave start out"):
        wanted.simulate(PARTIES, test=PUBLIC, seeds=1)


def test_a_run_that_stops_early_has_made_fewer_rounds_and_costs_what_it_was_to_cost() -> None:
    wanted = STUDY.replaced(stop_early={"patience": 1}, algorithm={**QUICK, "steps_taken": 60, "step": 40.0})
    found = wanted.simulate(PARTIES, test=PUBLIC, seeds=1)
    card = found.model.card
    assert card["rounds"] < card["rounds_planned"] == 60
    assert 1 <= card["chosen_round"] < card["rounds"]
    assert evaluated_at(card["chosen_round"] - 1, 60)
    assert card["stop_early"] == {"patience": 1, "least": 0.0}
    assert card["epsilon"] == pytest.approx(3.0, rel=1e-3)


def test_records_that_are_held_out_decide_nothing() -> None:
    with pytest.raises(StudyError, match="decides on a public test set, and a part of the records is none"):
        STUDY.replaced(stop_early=StopEarly(5)).simulate(PARTIES, seeds=1)


def test_of_open_records_a_part_may_decide() -> None:
    found = STUDY.replaced(stop_early={"patience": 2}).simulate(STUDY.made_up(500), seeds=1)
    assert found.model.card["chosen_round"] is not None


def test_both_are_in_the_document_and_paths_are_from_its_folder(tmp_path: Path, start: Path) -> None:
    wanted = STUDY.replaced(start=start, stop_early={"patience": 5, "least": 0.001})
    wanted.write(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text()
    assert str(start.parent.parent) not in text or start.is_relative_to(tmp_path)
    again = read(tmp_path / "study.toml")
    assert again.stop_early == StopEarly(5, 0.001)
    assert again.start is not None
    assert again.start.resolve() == start.resolve()


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"patience": 5, "metric": "auc"}, {}])
def test_a_stop_that_is_none_is_refused_by_its_place(wrong: dict[str, Any]) -> None:
    with pytest.raises((StudyError, ManifestError), match=r"rounds\.stop_early"):
        STUDY.replaced(stop_early=wrong)


def test_a_manifest_names_the_file_by_its_digest_and_whether_it_is_private(start: Path, open_start: Path) -> None:
    wanted = STUDY.replaced(**NAMES, stop_early={"patience": 5})
    for path, private in ((start, True), (open_start, False)):
        made = wanted.replaced(start=path).manifest()
        assert made.start is not None
        assert (made.start.digest, made.start.private) == (load(path).card["digest"], private)
        assert made.stop_early == StopEarly(5)
    assert wanted.manifest().start is None
