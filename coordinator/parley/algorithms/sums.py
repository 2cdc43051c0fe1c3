"""Sums of products that come out the same on every x86-64 processor: a BLAS adds in each processor's own order."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inner(left: Floats, right: Floats) -> float:
    """Σ_i left_i·right_i"""
    return float(np.sum(left * right))


def norm(vector: Floats) -> float:
    """|vector|"""
    return float(np.sqrt(inner(vector, vector)))


def combined(weights: Floats, rows: Floats) -> Floats:
    """Σ_i weights_i·rows_i, row by row."""
    return np.asarray(np.sum(weights[:, None] * rows, axis=0))
