"""Records and noise of central methods."""

import numpy as np

from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.mpc.randomness import Csprng
from parley.research.central.noise import Noise

D, N = 3, 400


def noise(seed: int = 1, silent: bool = False) -> Noise:
    return Noise(Csprng(bytes([seed]) * 32), silent)


def records(seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    values = rng.integers(-128, 129, (N, D))
    targets = (values @ np.array([1.0, -2.0, 0.5]) + rng.normal(0, 60, N) > 0).astype(np.float64)
    return Records(DenseRows.of(values, 8), targets)
