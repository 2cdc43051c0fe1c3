"""The path that is audited."""

import numpy as np
import pytest

from parley.mpc.ring import Integers, Lattice
from parley.privacy.audit import (
    worst_neighbours,
)
from parley.research import privacy_audit as command
from parley.research.release_path import LogisticTraining


def test_the_path_releases_what_the_mechanism_accounts() -> None:
    class Silent:
        def release(self, lattice: Lattice, count: int) -> Integers:
            return np.zeros(count, np.int64)

    mechanism = command.audited(8)
    path = LogisticTraining(mechanism, Silent(), command.SMOOTHNESS)
    same, other = worst_neighbours(8, 1, command.MAGNITUDE)
    first, second = path.run(same).openings
    # Every record pulls with its full clipped length, in the first round and after it.
    assert first[0][0] == pytest.approx(4 * 1.0, rel=1e-3)
    assert second[0][0] == pytest.approx(4 * 0.5, rel=2e-2)
    moved = {round(float(first[0][0] - path.run(other).openings[0][0][0]), 2) for _ in range(60)}
    assert moved == {0.0, mechanism.sensitivity(0)}
