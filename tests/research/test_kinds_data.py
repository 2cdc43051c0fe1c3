"""The kinds of data: the same records every time, with the shapes that they are named for."""

import numpy as np
import pytest

from parley.learning.rows import SparseRows
from parley.research.experiments.kinds_data import CHOSEN, KINDS, REPORTED, Kind

MADE = {kind.name: kind for kind in KINDS if kind.make is not None}


def test_every_kind_says_whether_constants_may_be_chosen_on_it() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.role for kind in KINDS} == {CHOSEN, REPORTED}
    assert all(bool(kind.file) != bool(kind.make) for kind in KINDS)


@pytest.mark.parametrize("kind", [MADE["records-500"], MADE["amounts"]], ids=lambda kind: kind.name)
def test_made_up_records_are_the_same_in_every_run_and_the_test_set_is_none_of_them(kind: Kind) -> None:
    one, other = kind.held(None), kind.held(None)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.train.targets, other.train.targets)
    assert one.train.units == 4 * one.test.units


def test_wide_and_rare_is_what_it_says() -> None:
    held = MADE["rare-sparse"].held(None)
    assert held is not None
    assert isinstance(held.train.rows, SparseRows)
    assert 0.01 < held.train.targets.mean() < 0.05
    assert held.schema.dimension == 401


def test_a_kind_that_needs_a_file_has_nothing_without_a_folder() -> None:
    assert next(kind for kind in KINDS if kind.file).held(None) is None
