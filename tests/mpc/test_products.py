"""The compiled sums of outer products against NumPy's exact integers."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.mpc.products import CHUNK, LARGEST_FACTOR, LARGEST_TERM, available, outer_sums

pytestmark = pytest.mark.skipif(
    not available(), reason="this processor has no AVX-512 with VNNI: the sums are float64's"
)


@pytest.mark.parametrize(("records", "d", "k"), [(1, 1, 1), (2, 6, 16), (77, 23, 10), (513, 131, 70), (1024, 784, 128)])
def test_sums_are_exact_for_every_shape(records: int, d: int, k: int) -> None:
    rng = np.random.default_rng(records)
    left = rng.integers(-256, 256, (records, d)).astype(np.int16)
    right = rng.integers(-LARGEST_FACTOR, LARGEST_FACTOR + 1, (records, k)).astype(np.int16)
    found = np.full((d, k), np.nan)
    outer_sums(left, right, found)
    assert (found == left.T.astype(np.int64) @ right.astype(np.int64)).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_admitted_terms_do_not_wrap(sign: int) -> None:
    """Every record of three chunks at the bound that callers prove, all of one sign."""
    records = 3 * CHUNK + 1
    left = np.full((records, 7), LARGEST_FACTOR, np.int16)
    right = np.full((records, 5), sign * (LARGEST_TERM // LARGEST_FACTOR), np.int16)
    found = np.zeros((7, 5))
    outer_sums(left, right, found)
    assert (found == records * int(left[0, 0]) * int(right[0, 0])).all()


def test_products_that_overflow_on_the_way_cancel_exactly() -> None:
    """A pair of products beyond 32 bits is right again once the true sum fits."""
    left = np.full((4, 1), -(1 << 15), np.int16)
    right = np.array([[-(1 << 15)], [-(1 << 15)], [LARGEST_FACTOR], [LARGEST_FACTOR]], np.int16)
    found = np.zeros((1, 1))
    outer_sums(left, right, found)
    assert found[0, 0] == (left.astype(np.int64) * right).sum()


def test_other_shapes_and_types_are_refused() -> None:
    good = np.zeros((4, 3), np.int16)
    refused: list[NDArray[Any]] = [np.zeros((4, 3)), np.zeros((3, 3), np.int16), np.zeros((4, 6), np.int16)[:, ::2]]
    for bad in refused:
        with pytest.raises(ValueError, match="contiguous"):
            outer_sums(good, bad, np.zeros((3, 3)))
