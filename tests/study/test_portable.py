"""Plain numbers: a reader of ten lines computes what the model file says; what cannot be kept is refused."""

import datetime
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from parley.learning.checks import label_of
from parley.learning.columns import Number
from parley.learning.errors import ModelFileError
from parley.study.portable import FORMAT, KNOWN, check_known, spellings
from tests.support.portable_models import MODELS, UNIFORM, random_model, random_rows

ROWS = random_rows(60)


def encoded(column: dict[str, Any], value: Any, steps: float) -> float:
    low, high = column["low"], column["high"]
    if column["kind"] == "date":
        first = datetime.date.fromisoformat(low)
        low, high, value = 0, (datetime.date.fromisoformat(high) - first).days, (value - first).days
    cut = min(max(value, low), high)
    cut = math.log1p(cut) if column.get("transform") == "log1p" else cut
    return float(round((cut - column["centre"]) / column["spread"] * steps) / steps)


def outputs(model: dict[str, Any], row: dict[str, Any]) -> list[float]:
    """As a program in any language would."""
    x: list[float] = []
    for column in model["columns"]:
        value = row[column["name"]]
        empty = value is None or (value in ("", "?", "NA", "nan") and value not in column.get("categories", ()))
        if column["kind"] == "category":
            words = [label_of(each) for each in column["categories"]]
            word = column["missing"] if empty else label_of(value)
            word = word if word in words or empty else column["other"]
            x += [float(word == each) for each in words]
        else:
            x.append(0.0 if empty else encoded(column, value, model["steps"]))
        if column["missing"] == "indicator":
            x.append(float(empty))
    for index, layer in enumerate(model["layers"]):
        if index:
            x = [math.tanh(each) if model["activation"] == "tanh" else max(each, 0.0) for each in x]
        x = [
            sum(w * each for w, each in zip(row, x, strict=True)) + b
            for row, b in zip(layer["weights"], layer["bias"], strict=True)
        ]
    return x


@pytest.mark.parametrize("name", MODELS)
def test_plain_json_computes_what_the_model_file_says(name: str) -> None:
    model = random_model(name)
    plain = json.loads(json.dumps(model.to_json(), allow_nan=False))
    assert plain["format"] == FORMAT
    assert plain["card"] == model.card
    rows = [{column: cells[index] for column, cells in ROWS.items()} for index in range(60)]
    found = np.array([outputs(plain, row) for row in rows])
    if model.schema.target.kind == "number":
        assert found[:, 0] == pytest.approx(model.predict(ROWS))
        assert "classes" not in plain["target"]
    else:
        assert found == pytest.approx(np.reshape(model.decision_function(ROWS), (60, -1)))
        assert plain["target"]["classes"] == list(model.classes_)


def test_features_under_one_bound_are_one_table() -> None:
    model = random_model("softmax", features=UNIFORM)
    plain = model.to_json()
    assert plain["columns"] == UNIFORM
    x = np.round(np.array([[0.25, 0.5, 2.0, -1.0, 0.75]]).clip(0, 1) * plain["steps"]) / plain["steps"]
    layer = plain["layers"][0]
    assert x @ np.array(layer["weights"]).T + layer["bias"] == pytest.approx(
        model.decision_function([[0.25, 0.5, 2, -1, 0.75]])
    )


def test_a_label_is_known_however_a_table_writes_it() -> None:
    assert spellings("1") == ["1", "1.0"]
    assert spellings("1.0") == ["1.0", "1"]
    assert spellings("2.5") == ["2.5"]
    assert spellings("north") == ["north"]
    assert spellings("inf") == ["inf"]


def test_a_kind_of_column_that_an_export_does_not_know_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Moon:
        name: str

    with pytest.raises(ModelFileError, match="tide: an export does not know columns of kind moon"):
        check_known(Moon("tide"))
    monkeypatch.setitem(KNOWN, Number, KNOWN[Number] - {"missing"})
    check_known(Number("tide", 0, 1, 0.5, 0.5, source="a book"))
    with pytest.raises(ModelFileError, match="tide: an export does not know missing"):
        check_known(Number("tide", 0, 1, 0.5, 0.5, missing="zero"))
