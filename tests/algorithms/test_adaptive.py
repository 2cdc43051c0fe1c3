"""Adam and RMSprop with a capped second moment."""

import numpy as np

from tests.support.algorithms import started


def test_adam_and_rmsprop_cap_the_second_moment() -> None:
    for name, first in (("dp-rmsprop", 1.0), ("dp-adam", 0.1)):
        algorithm, _ = started(name, cap=0.04, floor=0.0, step=1.0, second_decay=0.0)
        algorithm.tell(0, np.array([1.0, 0.1, -1.0]))
        # sqrt(min(g², 0.04)) is 0.2, 0.1 and 0.2.
        np.testing.assert_allclose(algorithm.theta, -first * np.array([5.0, 1.0, -5.0]))
