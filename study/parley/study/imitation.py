"""Made-up rows that fit a schema and can be learned from: to try a study, and to tune it, at nobody's cost.

From the schema alone, which is public: no record has a part in them, so whatever is tried on them is free. They say how
a run behaves (rounds, seconds, noise against signal), never how good a model of the real records would be.

Columns hang together a little, as real ones do. The target follows a planted model, the same for every table of a
schema, so that one made-up table can be the test set of another. Here and nowhere else are rows drawn by NumPy.
"""

import datetime
import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.columns import Category, Column, Date, Number, Target, Uniform
from parley.learning.pictures import Shape, picture_shape
from parley.learning.records import encode_features
from parley.learning.schema import Schema
from parley.models.extractor_spec import run_here
from parley.privacy.canonical import canonical_json
from parley.study.errors import StudyError
from parley.study.frames import data_of
from parley.study.open_records import note_made_up

if TYPE_CHECKING:
    from parley.study.study import Study

Floats = NDArray[np.float64]
MOST_RECORDS = 10_000_000
EMPTY = 0.05
"""Of the cells of a column that may be empty."""
TOGETHER = 0.5
"""Correlation of a column with what all have in common."""
SIGNAL = 2.0
"""Deviation of the planted scores: a perfect model would have an AUC of about 0.87."""
EXPLAINED = 0.8
"""Of the variance of a target that is a number"""
REACH = 0.2
"""Deviation of such a target over the width of its bounds."""
BLOCK = 8192
COARSE = 4
"""Pixels from corner to corner of the grid that a made-up picture is drawn between."""


def made_up(study: "Study", records: int, seed: int) -> dict[str, list[Any]]:
    """`Study.made_up`."""
    if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= MOST_RECORDS:
        raise StudyError(f"records is {records!r}: give a whole number from 1 to {MOST_RECORDS:,}")
    schema = study.schema
    rows = np.random.default_rng([seed, records])
    shape = picture_shape(study.model, schema)
    table: dict[str, list[Any]] = _features(schema, records, rows, shape)
    encoded = encode_features(data_of(table, schema), schema, {}, extract=run_here())
    scores = np.empty((records, schema.outputs))
    planted = _planted(schema, shape)
    for start in range(0, records, BLOCK):
        chosen = np.arange(start, min(start + BLOCK, records))
        dense = encoded.take(chosen).dense() * 2.0**-encoded.bits
        scores[chosen] = (dense[:, : schema.width] - planted.middle) @ planted.weights
    table[schema.target.name] = _answers(schema.target, scores * SIGNAL, rows)
    if schema.unit is not None:
        table[schema.unit] = _units(records, schema.records_per_unit)
    note_made_up(data_of(table, schema))
    return table


def _features(
    schema: Schema, records: int, rows: np.random.Generator, shape: Shape | None = None
) -> dict[str, list[Any]]:
    """Cells of every column that is no target. Of pictures, neighbours are alike."""
    shared = rows.standard_normal(records)

    def places() -> Floats:
        """Where in a column's range each row lies, in (0, 1)."""
        own = rows.standard_normal(records)
        return _normal_share(TOGETHER * shared + math.sqrt(1 - TOGETHER**2) * own)

    if isinstance(schema.features, Uniform):
        features = schema.features
        names = _free_names(features.count, schema.target.name)
        if shape is not None and schema.nonzeros is None:
            fields = _normal_share(_smooth(rows, records, shape)).T
            return {
                name: _numbers(field, features.low, features.high, features.whole)
                for name, field in zip(names, fields, strict=True)
            }
        if schema.nonzeros is None:
            return {name: _numbers(places(), features.low, features.high, features.whole) for name in names}
        share = min(1.0, schema.nonzeros / features.count / 2)
        return {name: _sparse(places(), features, share) for name in names}
    found = {}
    for feature in schema.features:
        cells = _cells(feature, places())
        if feature.missing != "refuse":
            empty = rows.random(records) < EMPTY
            cells = [None if gone else cell for gone, cell in zip(empty, cells, strict=True)]
        found[feature.name] = cells
    return found


def _cells(feature: Column, places: Floats) -> list[Any]:
    if isinstance(feature, Number):
        low, high = feature.ends
        values = low + places * (high - low)
        return _rounded(np.expm1(values) if feature.transform == "log1p" else values, feature.low, feature.high)
    if isinstance(feature, Date):
        days = np.floor(places * (feature.cut[1] + 1)).clip(0, feature.cut[1]).astype(int)
        return [datetime.date.fromordinal(feature.first + int(day)).isoformat() for day in days]
    assert isinstance(feature, Category)
    return _chosen(feature.categories, places)


def _chosen(labels: Sequence[str], places: Floats) -> list[str]:
    indices = np.minimum((places * len(labels)).astype(int), len(labels) - 1)
    return [labels[index] for index in indices]


def _numbers(places: Floats, low: float, high: float, whole: bool) -> list[Any]:
    values = low + places * (high - low)
    return _rounded(np.rint(values) if whole else values, low, high)


def _sparse(places: Floats, features: Uniform, share: float) -> list[Any]:
    """Mostly the centre, which sparse files do not store."""
    high = features.high if features.high > features.centre else features.low
    return [high if place < share else features.centre for place in places]


def _rounded(values: Floats, low: float, high: float) -> list[float]:
    """Four digits, as people write numbers down, and never beyond the bounds."""
    return [min(max(float(f"{value:.4g}"), low), high) for value in values]


class _Planted:
    """Weights of the encoded columns, and what the columns are in the middle."""

    def __init__(self, weights: Floats, middle: Floats) -> None:
        self.weights, self.middle = weights, middle


def _smooth(rows: np.random.Generator, count: int, shape: Shape) -> Floats:
    """So many pictures, each pixel normal of deviation one: a coarse grid of draws, and all between by its corners."""
    channels, height, width = shape
    down, across = _between(height), _between(width)
    grid = rows.standard_normal((count, channels, down.shape[1], across.shape[1]))
    return np.asarray(np.einsum("hg,ncgk,wk->nchw", down, grid, across, optimize=True).reshape(count, -1))


def _between(side: int) -> Floats:
    """How much of each corner of the grid is in each pixel of a side."""
    corners = max(2, side // COARSE)
    place = np.linspace(0, corners - 1, side)[:, None]
    share = np.maximum(0.0, 1 - np.abs(place - np.arange(corners)))
    return np.asarray(share / np.sqrt((share**2).sum(axis=1, keepdims=True)))


def _planted(schema: Schema, shape: Shape | None = None) -> _Planted:
    """The same for every table of this schema, by a trial of its own: scores of a deviation of one."""
    text = canonical_json({name: value for name, value in schema.as_json().items() if value is not None})
    if shape is not None:
        text += f" {shape}"
    draw = np.random.default_rng(np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32))
    if shape is None or schema.width != math.prod(shape):
        weights = draw.standard_normal((schema.width, schema.outputs))
    else:
        weights = _smooth(draw, schema.outputs, shape).T
    trial = encode_features(data_of(_features(schema, TRIAL, draw, shape), schema), schema, {}, extract=run_here())
    dense = np.asarray(trial.take(np.arange(TRIAL)).dense() * 2.0**-trial.bits)[:, : schema.width]
    middle, spread = dense.mean(axis=0), dense.std(axis=0)
    weights = weights / np.maximum(spread, 1e-9)[:, None] * (spread > 0)[:, None]
    deviation = np.maximum(((dense - middle) @ weights).std(axis=0), 1e-9)
    return _Planted(weights / deviation, middle)


TRIAL = 2000


def _answers(target: Target, scores: Floats, rows: np.random.Generator) -> list[Any]:
    """Labels by the odds that the scores are, a number by the score and noise."""
    count = len(scores)
    if target.kind == "number":
        standard = scores[:, 0] / SIGNAL
        value = math.sqrt(EXPLAINED) * standard + math.sqrt(1 - EXPLAINED) * rows.standard_normal(count)
        middle = (target.low + target.high) / 2
        return _rounded(middle + REACH * (target.high - target.low) * value, target.low, target.high)
    if target.kind == "classes":
        drawn = scores + rows.gumbel(size=scores.shape)
        return [target.classes[index] for index in drawn.argmax(axis=1)]
    positive = rows.random(count) < 1 / (1 + np.exp(-scores[:, 0]))
    yes, no = rows.integers(len(target.positive), size=count), rows.integers(len(target.negative), size=count)
    return [
        target.positive[a] if answer else target.negative[b] for answer, a, b in zip(positive, yes, no, strict=True)
    ]


def _units(records: int, most: int) -> list[str]:
    """Half as many records of each unit as it may have, so that none is left out."""
    each = max(1, (most + 1) // 2)
    return [f"made-up-{index // each + 1}" for index in range(records)]


def _free_names(count: int, target: str) -> list[str]:
    names = [f"x{index + 1}" for index in range(count)]
    return [f"{name}_" if name == target else name for name in names]


def _normal_share(values: Floats) -> Floats:
    """The normal distribution's function, by Abramowitz and Stegun 7.1.26 (to 2e-7): no SciPy for a trial."""
    x = np.abs(values) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * x)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(values) * (1 - tail * np.exp(-(x**2)))
    return np.asarray(np.clip((1 + erf) / 2, 1e-9, 1 - 1e-9))
