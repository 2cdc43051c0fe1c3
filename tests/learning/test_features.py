"""Whatever a record holds, its row of features is within the public bound, and no other record has a part in it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.learning.errors import SchemaError
from parley.learning.features import EPSILON, normalised, raw_features, whole
from parley.learning.readers import Dense, Table
from parley.learning.records import encode
from parley.learning.rows import DenseRows
from parley.learning.schema import Schema, schema_from_json
from parley.learning.transforms import Extractor, Scattering
from tests.learning.test_transforms import OWN, TARGET

SIDE = 16
COLUMNS = {"count": SIDE * SIDE, "low": 0, "high": 255, "spread": 255}
SCATTERING = {"kind": "scattering", "shape": [1, SIDE, SIDE], "angles": 4, "groups": 5}


def schema_of(transform: Any = SCATTERING, **more: Any) -> Schema:
    return schema_from_json(
        {"features": COLUMNS, "target": TARGET, "transform": transform, "bits": 4, "intercept": True, **more}
    )


def images(count: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE * SIDE))


def rows_of(values: NDArray[Any], schema: Schema, **more: Any) -> DenseRows:
    rows = encode(Dense(values, np.zeros(len(values), np.int64)), schema, **more).rows
    assert isinstance(rows, DenseRows)
    return rows


def test_rows_are_the_normalised_features_in_steps() -> None:
    values, schema = images(3), schema_of()
    rows = rows_of(values, schema)
    assert rows.values.dtype == np.int16
    assert rows.values.shape == (3, schema.dimension)
    assert (rows.values[:, -1] == 16).all()
    transform = Scattering((1, SIDE, SIDE), angles=4, groups=5)
    seen = (np.rint(values / 255 * 2**14) / 2**14).astype(np.float32)
    raw = raw_features(transform, seen, lambda *_: np.zeros((0, 0), np.float32)).reshape(3, 5, -1).astype(np.float64)
    due = (raw - raw.mean(2, keepdims=True)) / np.sqrt(raw.var(2, keepdims=True) + EPSILON)
    assert np.abs(rows.values[:, :-1] / 16 - due.reshape(3, -1)).max() <= 1 / 32 + 1e-6


def test_a_record_has_a_part_in_its_own_row_only() -> None:
    values, schema = images(40), schema_of()
    before = rows_of(values, schema).values
    values[7] = 0
    after = rows_of(values, schema).values
    assert np.array_equal(np.delete(before, 7, 0), np.delete(after, 7, 0))
    assert not np.array_equal(before[7], after[7])


def test_no_image_is_beyond_the_public_bound() -> None:
    hard = np.zeros((6, SIDE * SIDE), np.int64)
    hard[1], hard[2, 0], hard[3, ::2], hard[4] = 255, 255, 255, np.arange(SIDE * SIDE) % 256
    for bits in (0, 1, 4, 10, 16):
        schema = schema_of(bits=bits)
        rows = rows_of(np.concatenate([hard, images(50)]), schema)
        assert (rows.norms.squared * 4.0**-bits <= schema.feature_bound**2).all()
        low, high = schema.integer_reach
        assert low <= rows.values.min() <= rows.values.max() <= high


def extractor(**changes: Any) -> Extractor:
    fields: dict[str, Any] = {**OWN, "columns": 64, "shape": (1, SIDE, SIDE), **changes}
    return Extractor(**fields)


def own(transform: Extractor, values: NDArray[np.float32]) -> NDArray[np.float32]:
    return values.reshape(len(values), -1)[:, : transform.columns].copy()


def hostile(columns: int) -> NDArray[np.float32]:
    """What an extractor might give, whatever it was asked."""
    found = np.random.default_rng(1).normal(size=(9, columns)).astype(np.float32)
    found[0], found[1, 0], found[2, 3] = np.nan, np.inf, -np.inf
    found[3], found[4], found[5] = 3e38, 1e-42, 0
    found[6, 0], found[7, ::2], found[8] = 3e38, -3e38, 1e-20
    return found


@pytest.mark.parametrize("bits", [0, 4, 16])
@pytest.mark.parametrize("groups", [1, 32])
def test_no_extractor_takes_a_row_beyond_the_public_bound(bits: int, groups: int) -> None:
    transform = extractor(groups=groups)
    schema = schema_of({**OWN, "shape": [1, SIDE, SIDE], "groups": groups}, bits=bits)
    found = hostile(64)
    assert (normalised(found, transform)[:3] == 0).all()
    rows = rows_of(images(9), schema, extract=lambda *_: found)
    assert (rows.norms.squared * 4.0**-bits <= schema.feature_bound**2).all()
    assert (rows.values[:3, :-1] == 0).all()


def test_what_rounding_made_too_long_is_shortened() -> None:
    transform = extractor()
    halves = np.full((1, 64), 1.5)
    steps = whole(halves, transform, 0)
    assert (steps**2).sum() <= transform.longest_squared(0)
    assert (whole(np.full((1, 64), 0.9), transform, 0) == 1).all()


def test_features_stand_side_by_side_in_the_order_of_the_document() -> None:
    mine = {**OWN, "shape": [1, SIDE, SIDE], "groups": 2}
    schema = schema_of([mine, SCATTERING])
    values = images(5)
    both = rows_of(values, schema, extract=own).values
    assert np.array_equal(both[:, :64], rows_of(values, schema_of(mine), extract=own).values[:, :-1])
    assert np.array_equal(both[:, 64:], rows_of(values, schema_of()).values)


def test_code_is_not_run_unless_somebody_brings_what_runs_it() -> None:
    with pytest.raises(SchemaError, match="is code, and none is run here"):
        rows_of(images(2), schema_of({**OWN, "shape": [1, SIDE, SIDE]}))
    with pytest.raises(SchemaError, match="it must give float32, 64 columns"):
        rows_of(images(2), schema_of({**OWN, "shape": [1, SIDE, SIDE]}), extract=lambda *_: hostile(63)[:2])


def test_a_table_with_named_columns_can_be_transformed() -> None:
    schema = schema_from_json(
        {
            "features": [{"name": "pixel_{1..64}", "low": 0, "high": 1, "missing": "zero"}],
            "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
            "transform": {"kind": "scattering", "shape": [1, 8, 8], "groups": 9},
            "unit": "patient",
            "records_per_unit": 2,
        }
    )
    cells: dict[str, list[Any]] = {f"pixel_{index + 1}": [index / 64, None, 1.0] for index in range(64)}
    records = encode(Table({**cells, "sick": ["1", "0", "1"], "patient": ["a", "a", "b"]}, 3), schema)
    assert records.units == 2
    assert records.row_bound == schema.feature_bound
    assert records.rows.dimension == 324
