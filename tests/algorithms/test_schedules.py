"""Step sizes over rounds."""

import pytest

from parley.algorithms.errors import AlgorithmError
from parley.algorithms.schedules import Schedule


def test_schedules_decay_as_named() -> None:
    assert [Schedule(2.0, "linear").at(t, 4) for t in range(4)] == [2.0, 1.5, 1.0, 0.5]
    assert Schedule(2.0, "inverse-sqrt").at(3, 9) == 1.0
    assert Schedule(2.0, "cosine").at(2, 4) == pytest.approx(1.0)
    with pytest.raises(AlgorithmError, match="decay"):
        Schedule(1.0, "sometimes")
