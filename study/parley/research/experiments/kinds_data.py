"""The kinds of data of `parley reproduce kinds`: files of public sets, and made-up ones that need no file.

`CHOSEN` kinds may be looked at when a constant of `auto` is chosen; the others are only reported. The made-up ones are
the shapes in which a default recipe fails and which the folder of public sets lacks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.holding import described
from parley.learning.readers import Data, Dense, Sparse, read
from parley.learning.records import Records, encode, of_units
from parley.learning.schema import Schema
from parley.research.experiments import public_schemas
from parley.research.experiments.images import found
from parley.research.experiments.tables import DATA_SETS, TARGET
from parley.study.data import together
from parley.study.frames import data_of
from parley.study.simulation import SeededRandomness, permutation

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

CHOSEN, REPORTED = "chosen on", "only reported"
BINARY = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
LETTERS = [str(number) for number in range(26)]
HELD_OUT = 5
"""One record in so many is for testing, where the set has no test file; a split that is public."""


@dataclass(frozen=True)
class Kind:
    """One kind of data: a public schema, and where its records are from."""

    name: str
    role: str
    model: str
    schema: dict[str, Any]
    """As a study has it; with the keys of a layout where there is a file."""
    file: str = ""
    test: str = ""
    make: Callable[[np.random.Generator], tuple[Any, Any]] | None = None
    """Features and labels, made up."""
    most: int = 0
    """Records that are used, the first ones of a shuffled file; 0 for all."""

    def held(self, folder: Path | None) -> "Held | None":
        """None where it needs a folder and there is none."""
        uniform = isinstance(self.schema["features"], dict)
        layout, schema = described({"format": "libsvm" if uniform else "csv", **self.schema})
        if self.make is not None:
            records = encode(_made(self, schema), schema)
        elif folder is None:
            return None
        else:
            data = read([found(folder, self.file)], layout, schema.target.name)
            records = encode(data, schema, layout)
        if self.test and folder is not None:
            own = read([found(folder, self.test)], layout, schema.target.name)
            return Held(schema, self._some(records), encode(own, schema, layout))
        records = self._some(records)
        order = permutation(records.units, SeededRandomness("kinds hold-out", 0))
        cut = records.units // HELD_OUT
        test = together([of_units(records, np.sort(order[:cut]))])
        return Held(schema, of_units(records, np.sort(order[cut:])), test)

    def _some(self, records: Records) -> Records:
        if not self.most or records.units <= self.most:
            return records
        order = permutation(records.units, SeededRandomness("kinds sample", 0))
        return of_units(records, np.sort(order[: self.most]))


@dataclass(frozen=True)
class Held:
    """In memory, encoded."""

    schema: Schema
    train: Records
    test: Records


def _made(kind: Kind, schema: Schema) -> Data:
    """The same records in every run: what differs from seed to seed is noise and batches."""
    assert kind.make is not None
    features, labels = kind.make(np.random.default_rng(abs(hash_of(kind.name))))
    if isinstance(features, dict):
        return data_of({**features, schema.target.name: labels}, schema)
    if isinstance(features, tuple):
        starts, columns, values = features
        return Sparse([str(int(label)) for label in labels], starts, columns, values)
    return Dense(features, labels)


def hash_of(name: str) -> int:
    """Of a name, the same in every process."""
    return int.from_bytes(name.encode()[-7:], "big")


def _heavy(count: int, columns: int, width: float) -> Callable[[np.random.Generator], tuple[Columns, NDArray[Any]]]:
    """Log-normal amounts, whose bounds somebody set to what is possible and not to what is usual."""

    def make(rng: np.random.Generator) -> tuple[Columns, NDArray[Any]]:
        normal = rng.normal(size=(count, columns))
        weights = rng.normal(size=columns) / np.sqrt(columns)
        labels = rng.random(count) < _sigmoid(3.0 * (normal @ weights) - 1.0)
        values = np.exp(normal * rng.uniform(0.5, width, columns))
        return {f"x{j}": values[:, j] for j in range(columns)}, labels.astype(int)

    return make


def _wide_bounds(columns: int) -> dict[str, Any]:
    named = [{"name": f"x{j}", "low": 0, "high": 1000, "centre": 0, "spread": 200} for j in range(columns)]
    return {"intercept": True, "target": BINARY, "features": named}


def _sparse(
    count: int, columns: int, each: int, rate: float
) -> Callable[[np.random.Generator], tuple[Any, NDArray[Any]]]:
    """0/1 columns of falling frequency; few records are positive."""

    def make(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
        odds = 1 / np.arange(1, columns + 1) ** 0.8
        weights = rng.normal(size=columns) * 1.2
        rows = np.argsort(rng.gumbel(size=(count, columns)) + np.log(odds), axis=1)[:, -each:]
        rows.sort(axis=1)
        score = weights[rows].sum(axis=1) / np.sqrt(each) * 3.5
        shift = np.quantile(score + rng.logistic(size=count), 1 - rate)
        labels = rng.random(count) < _sigmoid(score - shift)
        return (np.arange(count + 1) * each, rows.ravel(), np.ones(count * each)), labels.astype(int)

    return make


def _sparse_schema(columns: int, each: int) -> dict[str, Any]:
    features = {"count": columns, "low": 0, "high": 1, "whole": True}
    return {"intercept": True, "nonzeros": each, "target": BINARY, "features": features}


def _classes(count: int, columns: int, classes: int, apart: float) -> Callable[[np.random.Generator], tuple[Any, Any]]:
    """Clouds around as many centres as there are classes."""

    def make(rng: np.random.Generator) -> tuple[Any, Any]:
        centres = rng.normal(size=(classes, columns)) * apart
        labels = rng.integers(classes, size=count)
        values = centres[labels] + rng.normal(size=(count, columns)) * rng.uniform(0.5, 1.5, columns)
        return values, np.array([str(label) for label in labels])

    return make


def _classes_schema(columns: int, classes: int) -> dict[str, Any]:
    target = {"name": "y", "kind": "classes", "classes": LETTERS[:classes]}
    return {"intercept": True, "features": {"count": columns, "low": -6, "high": 6}, "target": target, "bits": 8}


def _amounts(count: int, columns: int, spread: float) -> Callable[[np.random.Generator], tuple[Columns, Any]]:
    """Columns whose deviations differ a hundredfold, and a target whose bounds are ten times what it does."""

    def make(rng: np.random.Generator) -> tuple[Columns, Any]:
        scales = 10 ** rng.uniform(-1.5, 0.3, columns)
        values = rng.normal(size=(count, columns)) * scales
        weights = rng.normal(size=columns) / scales / np.sqrt(columns)
        target = 5 + spread * (values @ weights + 0.5 * rng.normal(size=count))
        return {f"x{j}": values[:, j] for j in range(columns)}, target

    return make


def _amounts_schema(columns: int) -> dict[str, Any]:
    named = [{"name": f"x{j}", "low": -10, "high": 10, "centre": 0, "spread": 1} for j in range(columns)]
    target = {"name": "y", "kind": "number", "low": -10, "high": 20, "centre": 0, "spread": 5}
    return {"intercept": True, "target": target, "features": named}


def _mixed(count: int, rate: float, strength: float = 1.0) -> Callable[[np.random.Generator], tuple[Columns, Any]]:
    """Eight columns as a hospital has them."""

    def make(rng: np.random.Generator) -> tuple[Columns, Any]:
        values = rng.normal(size=(count, 8))
        score = strength * (values @ np.array([1.2, -0.8, 0.6, 0.0, 0.4, 0.0, -0.3, 0.2]))
        shift = np.quantile(score + rng.logistic(size=count), 1 - rate)
        return {f"x{j}": values[:, j] for j in range(8)}, (rng.random(count) < _sigmoid(score - shift)).astype(int)

    return make


def _mixed_schema() -> dict[str, Any]:
    named = [{"name": f"x{j}", "low": -3, "high": 3, "centre": 0, "spread": 1} for j in range(8)]
    return {"intercept": True, "target": BINARY, "features": named}


def _sigmoid(score: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-score)))


def _libsvm(name: str) -> dict[str, Any]:
    return {"format": "libsvm", "target": TARGET, "intercept": True, **DATA_SETS[name].schema}


REUTERS = {
    "format": "libsvm", "target": TARGET, "intercept": True,
    "features": {"count": 8315, "low": 0, "high": 1}, "nonzeros": 80,
}  # fmt: skip
KINDS = (
    Kind("heavy-tails", CHOSEN, "logistic", _wide_bounds(20), make=_heavy(12_000, 20, 1.2)),
    Kind("wide-rare", CHOSEN, "logistic", _sparse_schema(1500, 30), make=_sparse(10_000, 1500, 30, 0.05)),
    Kind("classes-26", CHOSEN, "softmax", _classes_schema(16, 26), make=_classes(15_000, 16, 26, 0.7)),
    Kind("amounts", CHOSEN, "linear", _amounts_schema(12), make=_amounts(8_000, 12, 1.0)),
    Kind("bank", CHOSEN, "logistic", public_schemas.BANK, "bank-marketing/bank-full.csv"),
    Kind("wine-white", CHOSEN, "linear", public_schemas.WINE, "wine-quality/winequality-white.csv"),
    Kind("a9a", CHOSEN, "logistic", _libsvm("a9a"), "a9a/a9a", "a9a/a9a.t"),
    Kind("heavy-tails-40", REPORTED, "logistic", _wide_bounds(40), make=_heavy(25_000, 40, 1.6)),
    Kind("wide-rare-2500", REPORTED, "logistic", _sparse_schema(2500, 40), make=_sparse(12_000, 2500, 40, 0.03)),
    Kind("classes-12", REPORTED, "softmax", _classes_schema(30, 12), make=_classes(10_000, 30, 12, 0.5)),
    Kind("amounts-30", REPORTED, "linear", _amounts_schema(30), make=_amounts(12_000, 30, 0.4)),
    Kind("records-800", CHOSEN, "logistic", _mixed_schema(), make=_mixed(800, 0.25)),
    Kind("records-500", REPORTED, "logistic", _mixed_schema(), make=_mixed(500, 0.4, 0.7)),
    Kind("rare-sparse", CHOSEN, "logistic", _sparse_schema(400, 20), make=_sparse(20_000, 400, 20, 0.03)),
    Kind("adult", REPORTED, "logistic", public_schemas.ADULT, "adult/adult.data"),
    Kind("credit", REPORTED, "logistic", public_schemas.CREDIT, "credit-default/UCI_Credit_Card.csv"),
    Kind("bike", REPORTED, "linear", public_schemas.BIKE, "bike-sharing/hour.csv"),
    Kind("wine-red", CHOSEN, "linear", public_schemas.WINE, "wine-quality/winequality-red.csv"),
    Kind("ijcnn1", REPORTED, "logistic", _libsvm("ijcnn1"), "ijcnn1/ijcnn1", "ijcnn1/ijcnn1.t"),
    Kind("reuters", REPORTED, "logistic", REUTERS, "reuters-moneyfx/reuters.trn", "reuters-moneyfx/reuters.tst"),
)  # fmt: skip
