"""The ONNX export, run by onnxruntime, says what the model file says."""

import datetime
import json
from typing import Any

import numpy as np
import pytest

from parley.learning.errors import ModelFileError
from parley.study.model_file import LoadedModel
from tests.support.portable_models import CATEGORIES, MODELS, NUMBERS, UNIFORM, random_model, random_rows

pytestmark = pytest.mark.slow
ROWS = random_rows(300)


def cells(column: list[Any], wanted: Any) -> Any:
    """As a caller hands them over: text, or doubles with NaN where they are empty."""
    if "string" in wanted.type:
        return np.array([["" if cell is None else str(cell).strip()] for cell in column], object)
    if any(isinstance(cell, datetime.date) for cell in column):
        column = [None if cell is None else (cell - datetime.date(1970, 1, 1)).days for cell in column]
    return np.array(column, np.float64).reshape(-1, *wanted.shape[1:])


def answers(model: LoadedModel, rows: dict[str, list[Any]]) -> dict[str, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    fed = {each.name: cells(rows[each.name], each) for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, fed), strict=True))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_model_file(name: str, intercept: bool) -> None:
    model = random_model(name, intercept=intercept)
    found = answers(model, ROWS)
    if model.schema.target.kind == "number":
        assert found["prediction"][:, 0] == pytest.approx(model.predict(ROWS), rel=1e-9)
        return
    assert list(found["label"]) == list(model.predict(ROWS))
    assert found["probabilities"] == pytest.approx(model.predict_proba(ROWS), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["logistic", "softmax", "linear", "perceptron"])
def test_features_under_one_bound_are_one_input(name: str) -> None:
    model = random_model(name, features=UNIFORM)
    rows = np.random.default_rng(5).normal(0.5, 1, (100, 5))
    found = answers(model, {"features": rows.tolist()})
    if name == "linear":
        assert found["prediction"][:, 0] == pytest.approx(model.predict(rows), rel=1e-9)
    else:
        assert found["probabilities"] == pytest.approx(model.predict_proba(rows), rel=1e-9, abs=1e-12)


def test_what_the_schema_refuses_is_not_a_number() -> None:
    features = [{"kind": "number", **NUMBERS[0]}, {"kind": "category", **CATEGORIES[0]}]
    model = random_model("logistic", features=features)
    found = answers(model, {"age": [50.0, float("nan"), 50.0], "ward": ["north", "north", "east"]})
    assert np.isnan(found["probabilities"]).tolist() == [[False] * 2, [True] * 2, [True] * 2]


def test_a_column_with_the_name_of_an_answer_is_said_to_be_one() -> None:
    model = random_model("logistic", features=[{"kind": "number", "name": "label", "low": 0.0, "high": 1.0}])
    with pytest.raises(ModelFileError, match="label: an ONNX file has something of that name"):
        model.to_onnx()


def test_the_card_is_in_the_file_and_the_file_is_the_same_twice() -> None:
    import onnx

    model = random_model("logistic")
    content = model.to_onnx()
    made = onnx.load_from_string(content)
    assert json.loads({each.key: each.value for each in made.metadata_props}["card"]) == model.card
    assert content == model.to_onnx()
