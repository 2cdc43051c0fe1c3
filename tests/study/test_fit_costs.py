"""Every fit is charged to each record that it saw, and the worst record is what is said."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.study.fit_costs import Spending, Total, rows_of


def test_the_worst_record_decides_whatever_the_others_were_in() -> None:
    spending = Spending()
    a, b, c = (spending.digests([each])[0] for each in (b"a", b"b", b"c"))
    spending.charge([a, b], 1.0, 2.0**-17)
    spending.charge([b, c], 2.0, 2.0**-20)
    assert spending.worst([a]) == Total(1, 1.0, 2.0**-17)
    assert spending.worst([c]) == Total(1, 2.0, 2.0**-20)
    assert spending.worst([a, b, c]) == Total(2, 3.0, 9 * 2.0**-20)
    assert spending.worst([a, c]) == Total(1, 2.0, 2.0**-17), "each figure is of the record that is worst in it"
    assert spending.worst([]) == Total()
    assert spending.everything == Total(2, 3.0, 9 * 2.0**-20)


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=10), max_size=8))
def test_it_is_the_maximum_over_records_of_the_sum_over_their_fits(fits: list[list[int]]) -> None:
    spending = Spending()
    names = {each: spending.digests([bytes([each])])[0] for each in range(10)}
    for fit in fits:
        spending.charge(spending.digests([bytes([each]) for each in fit]), 0.5, 1e-6)
    for each, digest in names.items():
        assert spending.worst([digest]).fits == sum(each in fit for fit in fits)
    assert spending.worst(names.values()).epsilon == 0.5 * max((sum(e in f for f in fits) for e in names), default=0)


def test_a_record_that_is_there_twice_is_charged_once_and_a_key_is_a_process_own() -> None:
    one, other = Spending(), Spending()
    assert len(one.digests([b"a", b"a", b"b"])) == 2
    assert set(one.digests([b"a"])).isdisjoint(other.digests([b"a"]))


def test_fits_of_several_threads_are_all_counted() -> None:
    spending = Spending()
    records = spending.digests([bytes([each]) for each in range(200)])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: spending.charge(records, 1.0, 0.0), range(50)))
    assert spending.worst(records).fits == spending.everything.fits == 50


def test_one_record_is_known_in_a_frame_and_in_a_matrix() -> None:
    matrix = list(rows_of([np.array([63.0, -0.0]), np.array([1, 0])], 2))
    assert matrix == list(rows_of([[63, 0], ["1", False]], 2)) == list(rows_of([[63.0, 0.0], [True, "0.0"]], 2))
    texts: list[Any] = ["typical", "none", None, date(2020, 1, 1), "Typical", float("nan")]
    assert len(set(rows_of([texts], 6))) == 5, "None and NaN are both an empty cell"
    assert list(rows_of([texts], 6)) == list(rows_of([np.array(texts, object)], 6))


def test_neither_the_columns_order_nor_precision_nor_how_a_gap_is_written_makes_another_record() -> None:
    rng = np.random.default_rng(8)
    matrix = rng.normal(50, 20, (40, 3))
    known = list(rows_of(list(matrix.T), 40))
    assert list(rows_of(list(matrix.T[::-1]), 40)) == known
    assert list(rows_of(list(matrix.astype(np.float32).T), 40)) == known
    assert len(set(known)) == 40
    gaps = [list(rows_of([["63", "1"], ["a", gap]], 2)) for gap in ("", "NA", None, float("nan"), " ")]
    assert all(each == gaps[0] for each in gaps)
    large = [[float(2**24 + each)] for each in range(4)]
    assert len({row for each in large for row in rows_of([each], 1)}) == 4, "numbers of people stay apart"


def test_what_came_from_another_process_brings_its_count_and_a_fork_counts_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = Spending(), Spending()
    there.charge([], 2.0, 2.0**-20, 3)
    past = there.past({})
    assert there.with_past(past) == there.everything == here.with_past(past), "once, in the process that it is from"
    here.charge([], 1.0, 2.0**-20)
    assert here.with_past(past) == Total(4, 3.0, 2.0**-19)
    assert there.with_past(here.past(past)) == Total(4, 3.0, 2.0**-19)
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert there.with_past(past) == Total(6, 4.0, 2.0**-19)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_records_that_differ_in_one_cell_are_two(column: int) -> None:
    cells: list[list[Any]] = [[1.0], ["a"], [None]]
    other = [list(each) for each in cells]
    other[column] = [2.0]
    assert list(rows_of(cells, 1)) != list(rows_of(other, 1))
