"""A model without parley: what its columns become and what its layers compute, as plain numbers that others can hold.

`Portable` is what all exports are made of (`to_sklearn`, `to_onnx`, and JSON here). Every layer is x·W + b, with an
activation between two of them; the intercept's column is in the first layer's b, and the unit of a predicted number in
the last layer's. A kind of column that this module does not know is refused in words, never guessed at.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.checks import label_of
from parley.learning.columns import Category, Column, Date, Features, Number, Uniform
from parley.learning.errors import ModelFileError
from parley.learning.models import Linear
from parley.learning.perceptron import Perceptron
from parley.learning.schema import Schema
from parley.models.module_spec import is_module
from parley.study.model_file import LoadedModel

Floats = NDArray[np.float64]
FORMAT = "parley plain model 1"
KNOWN: dict[type, frozenset[str]] = {
    Number: frozenset({"name", "low", "high", "centre", "spread", "missing", "transform"}),
    Date: frozenset({"name", "low", "high", "centre", "spread", "missing"}),
    Category: frozenset({"name", "categories", "missing", "other"}),
}
"""Fields of a column that an export keeps: all that say what a cell becomes."""
EPOCH = 719163
"""The first day of 1970, as Python counts days."""


@dataclass(frozen=True)
class Layer:
    weights: Floats
    """float64[inputs, outputs]"""
    bias: Floats
    """float64[outputs]"""


@dataclass(frozen=True)
class Portable:
    """What a model computes."""

    schema: Schema
    columns: Features
    layers: tuple[Layer, ...]
    activation: str
    """Between two layers: relu or tanh."""

    @property
    def steps(self) -> float:
        """Encoded numbers are whole multiples of 1 / steps."""
        return 2.0**self.schema.fraction_bits

    @property
    def named(self) -> tuple[Column, ...]:
        """Of a model with columns by name."""
        return () if isinstance(self.columns, Uniform) else self.columns


def portable(model: LoadedModel) -> Portable:
    """Refused where a column or a model is of a kind that cannot be written without parley."""
    schema, columns = model.schema, model.schema.features
    if is_module(kind := model.description["model"].get("kind")):
        raise ModelFileError(
            f"the model is the module {kind}, which is its package's code and in no export of plain numbers: write its "
            "state_dict with `parley export --torch`, or ask the model file itself (parley predict --allow, study.load)"
        )
    if schema.transform:
        raise ModelFileError(
            "an export does not know the features between columns and model (transform): ask the model file itself "
            "(parley predict, study.load)"
        )
    if not isinstance(columns, Uniform):
        for column in columns:
            check_known(column)
    layers = _layers(model)
    if schema.intercept:
        first = layers[0]
        layers[0] = Layer(first.weights[:-1], first.bias + first.weights[-1])
    if schema.target.kind == "number":
        last, target = layers[-1], schema.target
        layers[-1] = Layer(last.weights * target.spread, last.bias * target.spread + target.centre)
    return Portable(schema, columns, tuple(layers), getattr(model.model, "activation", "relu"))


def check_known(column: Any) -> None:
    """Every field that is set, for one that is left out might have meant something."""
    what = f"columns of kind {type(column).__name__.lower()}" if type(column) not in KNOWN else ""
    for field in () if what else fields(column):
        if field.compare and field.name not in KNOWN[type(column)] and getattr(column, field.name) != field.default:
            what = field.name
    if what:
        raise ModelFileError(
            f"{column.name}: an export does not know {what}: ask the model file itself (parley predict, study.load)"
        )


def _layers(model: LoadedModel) -> list[Layer]:
    theta, built = model.theta, model.model
    if isinstance(built, Linear):
        weights = theta.reshape(built.features, built.residual.outputs)
        return [Layer(weights, np.zeros(built.residual.outputs))]
    if not isinstance(built, Perceptron):
        raise ModelFileError(f"an export does not know models of kind {model.description['model'].get('kind')}")
    found, start = [], 0
    for inputs, outputs in built.shapes:
        middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
        found.append(Layer(theta[start:middle].reshape(inputs, outputs), theta[middle:end]))
        start = end
    return found


def scale_of(column: Number | Date) -> tuple[float, float, float, float]:
    """What a value is cut to, what becomes 0 and what becomes 1 above it; a date's in days since 1970."""
    low, high = column.cut
    if isinstance(column, Date):
        first = column.first - EPOCH
        return low + first, high + first, column.centre + first, column.spread
    return low, high, column.centre, column.spread


def spellings(label: str) -> list[str]:
    """How a table may write a label: the words of a schema are compared as numbers where they are numbers."""
    same = label_of(label)
    try:
        whole = math.isfinite(float(same)) and float(same).is_integer()
    except ValueError:
        whole = False
    return list(dict.fromkeys([label.strip(), same, *([f"{int(same)}.0"] if whole else [])]))


def as_json(model: LoadedModel) -> dict[str, Any]:
    """A model as plain JSON: docs/model-file.md has its format, and a reader of ten lines."""
    found, target = portable(model), model.schema.target
    answer: dict[str, Any] = {"name": target.name, "kind": target.kind}
    if target.kind != "number":
        answer["classes"] = model.classes_.tolist()
    return {
        "format": FORMAT,
        "target": answer,
        "columns": _columns(found),
        "steps": found.steps,
        "activation": found.activation if len(found.layers) > 1 else None,
        "layers": [{"weights": each.weights.T.tolist(), "bias": each.bias.tolist()} for each in found.layers],
        "card": dict(model.card),
    }


def _columns(found: Portable) -> list[Mapping[str, Any]] | Mapping[str, Any]:
    if isinstance(found.columns, Uniform):
        each = found.columns
        return {"count": each.count, "low": each.low, "high": each.high, "centre": each.centre, "spread": each.spread}
    return [
        {"kind": type(each).__name__.lower(), **{name: _plain(getattr(each, name)) for name in _ordered(each)}}
        for each in found.columns
    ]


def _ordered(column: Column) -> list[str]:
    return [field.name for field in fields(column) if field.name in KNOWN[type(column)]]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
