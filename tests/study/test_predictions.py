"""Answers beside kept columns, in the form that was asked for, and over nothing that is there."""

import csv
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from parley.learning.errors import SchemaError
from parley.study.errors import StudyError
from parley.study.model_file import LoadedModel
from parley.study.predictions import Predictions, predicted, write
from tests.support.portable_models import CATEGORIES, NUMBERS, UNIFORM, random_model

FEATURES = [{"kind": "number", **NUMBERS[0]}, {"kind": "category", **CATEGORIES[1]}]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text('patient,stage,age,note\np1,1,30,\n"p,2",2.0,400,x\np3,9,50,"two\nlines"\np4,?,-5,\n')
    return path


def model_of(name: str = "logistic") -> LoadedModel:
    return random_model(name, features=FEATURES)


def test_answers_are_the_models_with_kept_columns_before_them(rows: Path) -> None:
    model = model_of()
    found = predicted(model, rows, ["patient", "note"])
    given = [{"age": age, "stage": stage} for age, stage in ((30, "1"), (400, "2"), (50, "9"), (-5, None))]
    assert list(found.columns) == ["patient", "note", "prediction", "probability"]
    assert found.columns["patient"] == ["p1", "p,2", "p3", "p4"]
    assert found.columns["prediction"] == list(model.predict(given))
    assert found.columns["probability"] == pytest.approx(model.predict_proba(given)[:, 1])
    assert found.remarks == ("3 values were cut to the public bounds, or are no listed word: age 2, stage 1",)


def test_each_class_has_its_probability_and_a_number_none(rows: Path) -> None:
    found = predicted(model_of("softmax"), rows)
    assert list(found.columns) == ["prediction", "probability[flu]", "probability[cold]", "probability[ache]"]
    assert list(predicted(model_of("linear"), rows).columns) == ["prediction"]


def test_what_was_written_is_read_again(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = predicted(model_of(), rows, ["patient"])
    write(found, str(tmp_path / "out.csv"))
    write(found, str(tmp_path / "out.parquet"))
    write(found, "-")
    with (tmp_path / "out.csv").open(newline="") as file:
        again = list(csv.DictReader(file))
    assert [each["patient"] for each in again] == found.columns["patient"]
    assert [float(each["probability"]) for each in again] == found.columns["probability"]
    assert parquet.read_table(tmp_path / "out.parquet").to_pydict() == found.columns
    assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()


def test_nothing_is_overwritten_unless_told_to(rows: Path, tmp_path: Path) -> None:
    found, out = predicted(model_of(), rows), tmp_path / "out.csv"
    out.write_text("mine")
    with pytest.raises(StudyError, match=r"out.csv is there already: give another name, or --force"):
        write(found, str(out))
    assert out.read_text() == "mine"
    write(found, str(out), force=True)
    assert out.read_text().startswith("prediction,probability\n")


def test_what_cannot_be_done_is_said_with_file_and_line(rows: Path, tmp_path: Path) -> None:
    model = model_of()
    with pytest.raises(StudyError, match=r"new.csv has no column 'id' to keep: it has patient, stage"):
        predicted(model, rows, ["id"])
    rows.write_text("age,stage,prediction\n30,1,a\nold,1,b\n")
    with pytest.raises(SchemaError, match=r"new.csv, line 3, column age: 'old' is not a number"):
        predicted(model, rows)
    rows.write_text("age,stage,prediction\n30,1,a\n")
    with pytest.raises(StudyError, match="prediction is what an answer is called"):
        predicted(model, rows, ["prediction"])
    with pytest.raises(StudyError, match=r"neither .csv nor .parquet"):
        write(Predictions({"prediction": []}, 0, ()), str(tmp_path / "out.xls"))
    with pytest.raises(StudyError, match="cannot be written"):
        write(Predictions({"prediction": []}, 0, ()), str(tmp_path / "none" / "out.csv"))
    np.savez(tmp_path / "x.npz", X=np.zeros((2, 5)), sick=np.zeros(2))
    uniform = random_model("logistic", features=UNIFORM)
    with pytest.raises(StudyError, match="has no columns by name"):
        predicted(uniform, tmp_path / "x.npz", ["id"])
