"""The scikit-learn export predicts what the model file predicts, without parley."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

from parley.learning.errors import ModelFileError
from parley.study.model_file import LoadedModel
from tests.support.portable_models import CATEGORIES, MODELS, NUMBERS, UNIFORM, random_model, random_rows

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of what another test left open
]
ROWS = random_rows(400)


def agree(model: LoadedModel, made: Any, rows: Any, own: Any) -> None:
    assert np.array_equal(made.predict(rows), model.predict(own)) or model.schema.target.kind == "number"
    if model.schema.target.kind == "number":
        assert made.predict(rows) == pytest.approx(model.predict(own), rel=1e-9, abs=1e-9)
        return
    order = np.argsort(model.classes_)
    assert list(made.classes_) == list(model.classes_[order])
    assert made.predict_proba(rows) == pytest.approx(model.predict_proba(own)[:, order], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_model_file(name: str, intercept: bool) -> None:
    model = random_model(name, intercept=intercept)
    agree(model, model.to_sklearn(), pandas.DataFrame(ROWS), ROWS)


def test_polars_frames_and_whole_numbers_do_as_well() -> None:
    features = [{"kind": "number", **NUMBERS[0]}, {"kind": "category", **CATEGORIES[1]}]
    model = random_model("logistic", features=features)
    rows = {"more": [0, 0, 0], "stage": [1, 2, 7], "age": [30, 40, 400]}
    made = model.to_sklearn()
    for frame in (pandas.DataFrame(rows), polars.DataFrame(rows)):
        agree(model, made, frame, rows)
    assert list(made.feature_names_in_) == ["age", "stage"]


@pytest.mark.parametrize("name", ["logistic", "softmax", "linear", "perceptron"])
def test_features_under_one_bound_come_as_an_array(name: str) -> None:
    model = random_model(name, features=UNIFORM)
    rows = np.random.default_rng(5).normal(0.5, 1, (100, 5))
    agree(model, model.to_sklearn(), rows, rows)


def test_what_the_schema_refuses_is_refused() -> None:
    made = random_model("logistic").to_sklearn()
    good = {name: cells[:1] for name, cells in random_rows(1, seed=4).items()}
    made.predict(pandas.DataFrame(good))
    for wrong in ({"age": [None]}, {"ward": ["east"]}, {"ward": [None]}):
        with pytest.raises(ValueError, match=r"NaN|unknown categories"):
            made.predict(pandas.DataFrame({**good, **wrong}).astype({"age": float}))


def test_what_it_cannot_hold_is_said_in_words() -> None:
    both = {"kind": "category", "name": "x", "categories": ["a"], "other": "zero"}
    with pytest.raises(ModelFileError, match="x takes an unknown word and refuses an empty cell"):
        random_model("logistic", features=[both]).to_sklearn()
    with pytest.raises(ModelFileError, match="cannot tell the category 'None'"):
        random_model("logistic", features=[{"kind": "category", "name": "x", "categories": ["None"]}]).to_sklearn()


def test_what_has_to_be_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModelFileError, match="pandas is not installed here: pip install scikit-learn pandas"):
        random_model("logistic").to_sklearn()


def test_it_predicts_where_there_is_no_parley(tmp_path: Path) -> None:
    """The user's own pickle, read by an interpreter that refuses to import parley."""
    model, path = random_model("perceptron of classes"), tmp_path / "made.pickle"
    path.write_bytes(pickle.dumps((model.to_sklearn(), pandas.DataFrame(ROWS))))
    program = (
        "import sys\nsys.modules['parley'] = None\nimport pickle\n"
        f"made, rows = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(','.join(made.predict(rows)))\nassert not any(name.startswith('parley.') for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip().split(",") == list(model.predict(ROWS)), done.stderr
