"""The model file: loads in three lines, and is refused once anything in it was changed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.result import write_model
from parley.learning.errors import DataError, ModelFileError
from parley.learning.model_archive import read_archive, with_digests, write_archive
from parley.node.software import source_digest
from parley.study.model_file import LoadedModel, load
from tests.support.documents import manifest, meaning
from tests.support.model_files import EVALUATION, THETA


def by_hand(age: float, pulse: float) -> float:
    x = [(np.clip(age, 20, 90) - 55) / 35, (np.clip(pulse, 30, 220) - 125) / 95, 1.0]
    return float(np.rint(np.array(x) * 1024) / 1024 @ THETA)


def test_three_lines_load_and_predict(path: Path) -> None:
    program = (
        f"from parley.study.model_file import load\nmodel = load({str(path)!r})\nprint(model.predict([[80.0, 60.0]]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['1']", done.stderr


def test_rows_of_every_kind_give_the_same_answers(path: Path, tmp_path: Path) -> None:
    model = load(path)
    rows = [(80.0, 60.0), (30.0, 200.0), (400.0, -5.0)]
    wanted = [by_hand(*row) for row in rows]
    (tmp_path / "new.csv").write_text("pulse,age\n60,80\n200,30\n-5,400\n")
    for given in (rows, np.array(rows), [{"age": age, "pulse": pulse} for age, pulse in rows], tmp_path / "new.csv"):
        assert model.decision_function(given) == pytest.approx(wanted)
    assert list(model.predict(rows)) == ["1" if score > 0 else "0" for score in wanted]
    assert model.predict_proba(rows)[:, 1] == pytest.approx(1 / (1 + np.exp(-np.array(wanted))))
    assert model.encoded(rows) @ THETA == pytest.approx(wanted)
    with pytest.raises(DataError, match="needs 2 values in this order: age, pulse"):
        model.predict([[1.0]])


def test_a_misspelt_or_missing_column_is_an_error_and_no_gap(path: Path) -> None:
    model = load(path)
    right = {"age": 80.0, "pulse": 60.0}
    with pytest.raises(DataError, match="no column 'pulse' in the data: it has age, pluse; did you mean it by 'pluse'"):
        model.predict([{"age": 80.0, "pluse": 60.0}])
    with pytest.raises(DataError, match="row 2 has no 'pulse'"):
        model.predict([right, {"age": 80.0}])
    with pytest.raises(DataError, match="no column 'age', 'pulse'"):
        model.predict({"Age": [80.0]})
    assert model.predict({name: [value] for name, value in right.items()}) == model.predict([right])


def test_classes_and_numbers_come_in_the_datas_own_terms() -> None:
    features = {"count": 2, "low": 0.0, "high": 1.0, "centre": 0.0, "spread": 1.0}
    classes = {
        "features": features,
        "target": {"name": "y", "kind": "classes", "classes": ["a", "b", "c"]},
    }
    theta = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 1.0]])
    model = LoadedModel(theta.ravel(), {"model": {"kind": "softmax"}, "schema": classes}, {})
    assert list(model.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))) == ["b", "c"]
    assert model.predict_proba([[1.0, 0.0]]).sum() == pytest.approx(1)
    number = {
        **classes,
        "target": {"name": "y", "kind": "number", "centre": 10.0, "spread": 5.0, "low": 0.0, "high": 20.0},
    }
    model = LoadedModel(np.array([1.0, -1.0]), {"model": {"kind": "linear"}, "schema": number}, {})
    assert model.predict([[1.0, 0.5]])[0] == pytest.approx(12.5)
    with pytest.raises(ModelFileError, match="no classes"):
        model.predict_proba([[1.0, 0.5]])


def test_the_card_says_what_the_run_was(path: Path) -> None:
    card = json.loads((path.parent / "card.json").read_text())
    assert card == load(path).card
    assert card["manifest_digest"] == manifest().digest.hex()
    assert (card["epsilon"], card["delta"], card["accountant"]) == (1.78, 1e-5, "pld")
    assert card["parties"] == {"hospital-a": 300, "hospital-b": 200, "hospital-c": 100}
    assert (card["unit"], card["relation"], card["statement"]) == ("row", "replace-one", "a sentence")
    assert (card["rounds"], card["evaluation"]) == (40, EVALUATION)
    assert card["software"]["source_digest"] == source_digest()
    assert len(source_digest()) == 64


def test_parameters_that_are_no_model_are_not_written(tmp_path: Path) -> None:
    for theta in (THETA[:2], THETA * np.nan):
        with pytest.raises(ModelFileError, match="theta is"):
            write_model(tmp_path / "model.npz", theta, manifest(), meaning())
    with pytest.raises(ModelFileError, match="another manifest"):
        write_model(tmp_path / "model.npz", THETA, manifest(run="heart-2"), meaning())
    with pytest.raises(ModelFileError, match="not finite"):
        write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), {"auc": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["nan", "shorter", "no schema", "model is text"])
def test_a_file_whose_digests_agree_and_whose_content_does_not_is_refused(
    path: Path, tmp_path: Path, what: str
) -> None:
    """Anybody can compute digests: what a stranger has written is refused in words, not by a traceback."""
    theta, description, card = read_archive(path)
    if what == "nan":
        theta = theta * np.nan
    elif what == "shorter":
        theta = theta[:-1]
    elif what == "no schema":
        description.pop("schema")
    else:
        description["model"] = "logistic"
    made = tmp_path / "made" / "strange.npz"
    write_archive(made, theta, description, with_digests(card, theta, description))
    with pytest.raises(ModelFileError, match=r"no finite number|the file was altered"):
        load(made).predict([[80.0, 60.0]])
