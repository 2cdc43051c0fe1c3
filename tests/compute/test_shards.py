"""Shards, chunks and lists: public lengths, and every record once."""

import numpy as np
import pytest
from scipy.stats import chi2

from parley.compute.shards import (
    as_arrays,
    chunk_length,
    from_arrays,
    list_length,
    lists,
    made_up,
    shard,
)
from parley.learning.rows import DenseRows, SparseRows
from parley.privacy.sampling import Batch
from tests.support.computed import KINDS, setting
from tests.support.mechanisms import SOURCE


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_unit_is_with_one_worker_and_arrives_there_as_it_was(kind: str) -> None:
    records = setting(kind).records
    parts = [shard(records, worker, 3) for worker in range(3)]
    assert sum(part.units for part in parts) == records.units
    for worker, part in enumerate(parts):
        header, arrays = as_arrays(part)
        found = from_arrays(header, arrays)
        for unit in range(part.units):
            here = np.array([unit])
            mine = found.rows.take(np.maximum(found.unit_members(here).ravel(), 0)).dense()
            whole = np.maximum(records.unit_members(np.array([worker + 3 * unit])).ravel(), 0)
            kept = records.unit_members(np.array([worker + 3 * unit])).ravel() >= 0
            np.testing.assert_array_equal(mine[kept], records.rows.take(whole).dense()[kept])
        assert type(found.rows) is type(records.rows)
        if isinstance(found.rows, DenseRows) and isinstance(records.rows, DenseRows):
            assert found.rows.values.dtype == records.rows.values.dtype
        if isinstance(found.rows, SparseRows) and isinstance(records.rows, SparseRows):
            assert found.rows.columns.shape[1] == records.rows.columns.shape[1]
        assert found.row_bound == records.row_bound


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize(("length", "units"), [(64, 1000), (1024, 60_000), (1024, 1024), (5, 9), (8192, 60_000)])
def test_a_list_is_long_enough_but_for_one_draw_in_two_to_the_64(workers: int, length: int, units: int) -> None:
    chunk = chunk_length(length, 26_010)
    found = list_length(length, units, workers, chunk)
    assert found % chunk == 0
    most = min(length, -(-units // workers))
    if found < most:
        # The exact tail of the hypergeometric law, from scipy, is below the bound that was solved for.
        from scipy.stats import hypergeom

        largest = -(-units // workers)
        assert workers * hypergeom.sf(found, units, largest, length) <= 2.0**-64
        assert found < length
    else:
        assert found < most + chunk


def test_eight_workers_have_less_to_do_than_one() -> None:
    chunk = chunk_length(4096, 7850)
    one, eight = (list_length(4096, 60_000, workers, chunk) for workers in (1, 8))
    assert one == 4096
    assert eight <= 4096 / 4


def test_lists_name_every_present_unit_once_also_where_one_is_too_short() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        indices = rng.choice(101, 40, replace=False)
        batch = Batch(indices.astype(np.int64), rng.random(40) < 0.7)
        found: list[int] = []
        for asked in lists(batch, 4, 3, SOURCE):
            assert asked.places.shape == asked.present.shape == (4, 3)
            for worker in range(4):
                found += (asked.places[worker][asked.present[worker]] * 4 + worker).tolist()
        assert sorted(found) == sorted(indices[batch.present].tolist())
    assert len(list(lists(Batch(np.arange(3), np.zeros(3, np.bool_)), 2, 4, SOURCE))) == 1, (
        "nobody present: the same question"
    )


def test_a_unit_stands_at_any_place_of_a_list_whoever_else_is_present() -> None:
    """Of 8 places, 4,000 times, with 2 and with 6 others: each chi-square alarms falsely once in a million runs."""
    for others in (2, 6):
        counts = np.zeros(8)
        for _ in range(4000):
            batch = Batch(np.arange(8), np.arange(8) <= others)
            (asked,) = lists(batch, 1, 8, SOURCE)
            counts[np.flatnonzero(asked.present[0] & (asked.places[0] == 0))[0]] += 1
        assert ((counts - 500) ** 2 / 500).sum() < chi2.isf(1e-6, 7)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_public_rows_have_the_shapes_of_the_records_and_nothing_of_them(kind: str) -> None:
    given = setting(kind).records
    other = setting(kind, rows=403).records
    rows = other.rows
    if isinstance(rows, DenseRows):
        rows.values[:] = 0
    else:
        assert isinstance(rows, SparseRows)
        rows.values[:] = 0
    one, two = made_up(given, 16), made_up(other, 16)
    assert one.units == 16
    assert one.records_per_unit == given.records_per_unit
    np.testing.assert_array_equal(one.rows.take(np.arange(16)).dense(), two.rows.take(np.arange(16)).dense())
    assert one.rows.dimension == given.rows.dimension
