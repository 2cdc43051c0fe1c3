"""The builder gives the shipped tables byte for byte."""

import numpy as np
import pytest

from parley.mpc.table_builder import build
from parley.mpc.tables import Cover, Precision, load


@pytest.mark.parametrize(("cover", "precision"), [("strips", "standard"), ("rectangle", "standard")])
@pytest.mark.slow
def test_the_builder_gives_the_same_bytes(cover: Cover, precision: Precision) -> None:
    tables = load(cover, precision)
    shipped = np.concatenate([tables.head, tables.tail.reshape(-1, 16)])
    assert build(cover, precision).tobytes() == shipped.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("cover", ["strips", "rectangle"])
def test_the_builder_gives_the_same_bytes_in_high_precision(cover: Cover) -> None:
    test_the_builder_gives_the_same_bytes(cover, "high")
