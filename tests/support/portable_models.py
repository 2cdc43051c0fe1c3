"""Models of every kind with random parameters, and random rows that they take: what exports are held against."""

from typing import Any

import numpy as np

from parley.learning.schema import schema_from_json
from parley.models.registry import build_model
from parley.study.model_file import LoadedModel

NUMBERS = [
    {"name": "age", "low": 20.0, "high": 90.0},
    {"name": "pulse", "low": 30.0, "high": 220.0, "centre": 70.0, "spread": 20.0, "missing": "centre"},
    {"name": "dose", "low": -1.0, "high": 3.0, "missing": "zero"},
    {"name": "visits", "low": 0.0, "high": 100.0, "transform": "log1p", "missing": "indicator"},
    {"name": "stay", "low": -0.5, "high": 50.0, "transform": "log1p"},
    {"name": "weight", "low": 40.0, "high": 150.0, "missing": "indicator"},
]
DATES = [
    {"name": "born", "low": "1920-01-01", "high": "2010-06-30"},
    {"name": "seen", "low": "2020-01-01", "high": "2024-12-31", "missing": "indicator"},
]
CATEGORIES = [
    {"name": "ward", "categories": ["north", "south", "2"]},
    {"name": "stage", "categories": ["1", "2", "3.5", "x y"], "missing": "zero", "other": "zero"},
    {"name": "floor", "categories": ["1", "2"], "missing": "indicator", "other": "zero"},
    {"name": "site", "categories": ["b", "a", "NA"], "missing": "a", "other": "b"},
]
FEATURES = [
    {"kind": "number", **NUMBERS[0]},
    {"kind": "category", **CATEGORIES[0]},
    *({"kind": "number", **each} for each in NUMBERS[1:4]),
    {"kind": "date", **DATES[0]},
    *({"kind": "category", **each} for each in CATEGORIES[1:]),
    {"kind": "date", **DATES[1]},
    *({"kind": "number", **each} for each in NUMBERS[4:]),
]
UNIFORM = {"count": 5, "low": 0.0, "high": 1.0, "centre": 0.0, "spread": 1.0}
BINARY = {"name": "sick", "kind": "binary", "positive": ["1", "2"], "negative": ["0"]}
BACKWARDS = {"name": "sick", "kind": "binary", "positive": ["no"], "negative": ["yes"]}
CLASSES = {"name": "what", "kind": "classes", "classes": ["flu", "cold", "ache"]}
NUMBER = {"name": "days", "kind": "number", "low": 0.0, "high": 40.0, "centre": 12.0, "spread": 4.0}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "logistic": ({"kind": "logistic"}, BINARY),
    "backwards": ({"kind": "logistic"}, BACKWARDS),
    "smoothed-hinge": ({"kind": "smoothed-hinge"}, BINARY),
    "softmax": ({"kind": "softmax"}, CLASSES),
    "linear": ({"kind": "linear"}, NUMBER),
    "huber": ({"kind": "huber", "threshold": 1.0}, NUMBER),
    "perceptron": ({"kind": "perceptron", "hidden": [7, 4], "activation": "relu"}, BINARY),
    "perceptron, backwards": ({"kind": "perceptron", "hidden": [5], "activation": "tanh"}, BACKWARDS),
    "perceptron of classes": ({"kind": "perceptron", "hidden": [6], "activation": "tanh"}, CLASSES),
}


def random_model(name: str, *, intercept: bool = True, features: Any = None, seed: int = 1) -> LoadedModel:
    """One of `MODELS` on `FEATURES`."""
    body, target = MODELS[name]
    schema = {"features": FEATURES if features is None else features, "target": target, "intercept": intercept}
    dimension = build_model(body, schema_from_json(schema)).dimension
    theta = np.random.default_rng(seed).normal(0, 0.7, dimension)
    return LoadedModel(theta, {"model": body, "schema": schema}, {"run": "made-up"})


def random_rows(count: int, seed: int = 2) -> dict[str, list[Any]]:
    """Of `FEATURES`: beyond bounds, empty where that has a rule, unknown words where they have one."""
    rng = np.random.default_rng(seed)

    def words(*given: str | None) -> list[Any]:
        return [given[index] for index in rng.integers(0, len(given), count)]

    def empty(values: Any) -> list[float | None]:
        return [None if gone else float(value) for value, gone in zip(values, rng.random(count) < 0.2, strict=True)]

    def days(first: str, most: int) -> Any:
        return (np.datetime64(first) + rng.integers(0, most, count)).astype(object)

    return {
        "age": rng.normal(60, 30, count).tolist(),
        "ward": words("north", " south ", "2", "2.0"),
        "pulse": empty(rng.normal(80, 60, count)),
        "stage": words("1", "1.0", "2", "3.5", "x y", "unheard of", None, "", "?"),
        "site": words("a", "b", "NA", "c", None, "?"),
        "dose": empty(rng.normal(0, 3, count)),
        "visits": empty(rng.normal(20, 60, count)),
        "stay": rng.normal(20, 30, count).tolist(),
        "weight": empty(rng.normal(90, 60, count)),
        "floor": words("1", "2", "3", None),
        "born": days("1910-01-01", 40_000).tolist(),
        "seen": [
            day if kept else None for day, kept in zip(days("2019-06-01", 2500), rng.random(count) < 0.7, strict=True)
        ],
    }
