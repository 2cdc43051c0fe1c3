"""From encoded columns to the rows that a model sees: a schema's transforms, normalised and encoded once more.

Whatever a row holds, it comes out within the schema's public bound: what is not finite becomes a row of zeros, and what
rounding has made too long is shortened, never refused. A row's features depend on that row alone.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parley.learning.encoding import SAFETY
from parley.learning.errors import SchemaError
from parley.learning.rows import DenseRows, Rows, integer_type
from parley.learning.schema import Schema
from parley.learning.transforms import Extractor, Scattering, Transform
from parley.learning.wavelets import plan, scattered

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Extract = Callable[[Extractor, Singles], Singles]
"""Runs an institution's own code: float32[records, *shape] to float32[records, columns]."""

VERSION = "parley features 1"
"""Raised whenever the same row would become other features: caches made before are of no use then."""
EPSILON = 1e-5
"""Added to the variance of a group, as torch's GroupNorm does: a group that says nothing is not blown up."""
ROWS_AT_ONCE = 128
"""Of features in float64: what fits a processor's cache."""


def unknown_code(transform: Extractor, values: Singles) -> Singles:
    """Where no code of anybody's may run."""
    raise SchemaError(f"{transform.kind} is code, and none is run here: allow it by name")


def with_features(found: Rows, schema: Schema, extract: Extract = unknown_code) -> DenseRows:
    """`found` are the schema's columns as `schema.before` encodes them."""
    held = np.zeros((len(found), schema.dimension), integer_type(schema.integer_reach))
    held[:, schema.width :] = 1 << schema.bits  # the intercept, if any
    for start in range(0, len(found), ROWS_AT_ONCE):
        chosen = np.arange(start, min(start + ROWS_AT_ONCE, len(found)))
        values = (found.take(chosen).dense() * 2.0**-found.bits).astype(np.float32)
        place = 0
        for transform in schema.transform:
            features = normalised(raw_features(transform, values, extract), transform)
            held[chosen, place : place + transform.features] = whole(features, transform, schema.bits)
            place += transform.features
    return DenseRows.of(held, schema.bits, schema.integer_reach)


def raw_features(transform: Transform, values: Singles, extract: Extract) -> Singles:
    """float32[records, features], before they are normalised."""
    shaped = values.reshape(len(values), *transform.shape)
    if isinstance(transform, Scattering):
        return _scattered(transform, shaped)
    found = extract(transform, shaped)
    if found.shape != (len(values), transform.columns) or found.dtype != np.float32:
        raise SchemaError(
            f"{transform.kind} gave {found.dtype} of {found.shape}: it must give float32, {transform.columns:,} columns"
        )
    return found


def _scattered(transform: Scattering, images: Singles) -> Singles:
    count, _, height, width = images.shape
    planes = scattered(images.reshape(-1, height, width), plan(height, width, transform.scales, transform.angles))
    if transform.pool:
        rows, columns = (_areas(side, transform.pool) for side in planes.shape[2:])
        planes = np.asarray(rows @ planes @ columns.T)
    return planes.reshape(count, transform.features)


@lru_cache(maxsize=16)
def _areas(side: int, areas: int) -> Singles:
    """Means of `areas` stretches that cover a side, float32[areas, side]; neighbours overlap if it is no multiple."""
    found = np.zeros((areas, side), np.float32)
    for index in range(areas):
        first, last = index * side // areas, -(-(index + 1) * side // areas)
        found[index, first:last] = 1 / (last - first)
    return found


def normalised(features: Singles, transform: Transform) -> Floats:
    """Each group of each row to mean 0 and a mean square of at most 1; a row that is not finite is 0."""
    sound = np.isfinite(features).all(axis=1, keepdims=True)
    grouped = np.where(sound, features, 0).astype(np.float64).reshape(len(features), transform.groups, -1)
    grouped -= grouped.mean(axis=2, keepdims=True)
    squared = np.einsum("ijk,ijk->ij", grouped, grouped) / transform.group
    grouped /= np.sqrt(squared + EPSILON)[:, :, None]
    return grouped.reshape(features.shape)


def whole(features: Floats, transform: Transform, bits: int) -> Floats:
    """The nearest integers in steps of 2^-bits, within the transform's public bounds."""
    most = transform.largest
    steps = np.rint(np.clip(features, -most, most) * 2.0**bits)
    bound = float(transform.longest_squared(bits))
    squared = np.einsum("ij,ij->i", steps, steps)
    factor = np.where(squared > bound, np.sqrt(bound / np.maximum(squared, 1.0)) * SAFETY, 1.0)
    return np.asarray(np.trunc(steps * factor[:, None]))
