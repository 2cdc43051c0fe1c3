"""Rows for models."""

import numpy as np
from numpy.typing import NDArray

from parley.learning.models import Huber, Linear, Logistic, Model, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.rows import DenseRows

D, N, K = 7, 40, 3
MODELS: dict[str, Model] = {
    "logistic": Linear(D, Logistic()),
    "softmax": Linear(D, Softmax(K)),
    "linear": Linear(D, Squared()),
    "huber": Linear(D, Huber(0.7)),
    "smoothed hinge": Linear(D, SmoothedHinge(3.0, 2.0)),
    "perceptron": Perceptron(D, (5, 4), Softmax(K), "tanh"),
    "relu perceptron": Perceptron(D, (6,), Logistic()),
}


def data(name: str, seed: int = 1) -> tuple[DenseRows, NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    rows = DenseRows.of(rng.integers(-256, 257, (N, D)), 8)
    if name in ("softmax", "perceptron"):
        targets = rng.integers(0, K, N).astype(np.float64)
    elif name in ("logistic", "relu perceptron", "smoothed hinge"):
        targets = rng.integers(0, 2, N).astype(np.float64)
    else:
        targets = rng.normal(0, 1, N)
    return rows, targets, rng.normal(0, 0.5, MODELS[name].dimension)
