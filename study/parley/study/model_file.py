"""A model to ask: what a run's model file says, read and checked.

    from parley.study.model_file import load
    model = load("model.npz")
    model.predict("new-patients.csv")        # or a frame, dictionaries, an array of raw feature values

The file's form is in parley.learning.model_archive; whoever leads a run writes it (parley.coordinator.result).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.errors import ModelFileError
from parley.learning.holding import LAYOUT_FIELDS, layout_by_name
from parley.learning.model_archive import read_archive, write_archive
from parley.learning.models import Model, sigmoid
from parley.learning.readers import Data, read
from parley.learning.records import encode_features
from parley.learning.registry import build_model
from parley.learning.schema import Schema, Uniform, schema_from_json
from parley.study.frames import data_of

Floats = NDArray[np.float64]
BLOCK = 8192


@dataclass(frozen=True)
class LoadedModel:
    """A model to ask. `predict` takes raw values: the schema that trained it encodes them."""

    theta: Floats
    description: Mapping[str, Any]
    card: Mapping[str, Any]

    @cached_property
    def schema(self) -> Schema:
        return schema_from_json(columns_of(self.description["schema"]))

    @cached_property
    def model(self) -> Model:
        options = {name: value for name, value in self.description["model"].items() if name != "dimension"}
        return build_model(options, self.schema)

    def encoded(self, rows: Any) -> Floats:
        """Features as the model sees them, float64[rows, columns], the intercept's last: for use elsewhere."""
        found = encode_features(_given(rows, self.schema), self.schema, {})
        return np.asarray(found.take(np.arange(len(found))).dense() * 2.0**-found.bits)

    def scores(self, rows: Any) -> Floats:
        """Raw outputs, float64[rows, outputs]."""
        found = encode_features(_given(rows, self.schema), self.schema, {})
        blocks = [np.arange(start, min(start + BLOCK, len(found))) for start in range(0, len(found), BLOCK)]
        parts = [self.model.scores(found.take(block), self.theta) for block in blocks]
        return np.concatenate(parts) if parts else np.zeros((0, self.schema.outputs))

    def probabilities(self, rows: Any) -> Floats:
        """Of the positive label, float64[rows], or of each class, float64[rows, classes]."""
        scores = self.scores(rows)
        if self.schema.target.kind == "binary":
            return np.asarray(sigmoid(scores[:, 0]))
        if self.schema.target.kind == "number":
            raise ModelFileError("a model of a number has no probabilities: ask it to predict")
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Labels as the data has them, or numbers in its unit."""
        scores, target = self.scores(rows), self.schema.target
        if target.kind == "number":
            return np.asarray(scores[:, 0] * target.spread + target.centre)
        if target.kind == "classes":
            return np.asarray(np.array(target.classes)[scores.argmax(axis=1)])
        return np.asarray(np.where(scores[:, 0] > 0, target.positive[0], target.negative[0]))


def read_model(path: Path | str) -> LoadedModel:
    """The file, checked: plain arrays, digests that agree, and a card.json beside it, if any, that says the same."""
    return LoadedModel(*read_archive(Path(path)))


load = read_model


def copy_model(model: LoadedModel, path: Path) -> None:
    """The same file elsewhere, card and all."""
    write_archive(path, model.theta, model.description, model.card)


def columns_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a file looked like, which model files of earlier versions say too."""
    return {name: value for name, value in body.items() if name not in LAYOUT_FIELDS}


def _given(rows: Any, schema: Schema) -> Data:
    """Rows as the readers of `party` give them."""
    if isinstance(rows, str | Path):
        path = Path(rows)
        return read([path], layout_by_name(path), schema.target.name)
    if isinstance(schema.features, Uniform) and np.ndim(rows) == 1 and not hasattr(rows, "columns"):
        rows = np.atleast_2d(np.asarray(rows, np.float64))
    return data_of(rows, schema)
