"""Records per second of the exact private queries beside a plain, non-private NumPy gradient, in one run, one thread.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 parley bench gradients --json

The query draws nothing and adds no noise, and does everything else: gather, scores, clip, integer weights with the
exact norm check, exact sum. The baseline gathers the same rows and is what anybody would write: float64 for a linear
model, float32 for a perceptron. Measurements alternate, and the fastest of each is taken: on a busy machine the longer
of two calls is interrupted more often, by more than it is longer, and medians tell the load.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.encoding import Scale, fraction_bits
from parley.learning.models import Linear, Logistic, Model, Softmax
from parley.learning.perceptron import Perceptron
from parley.learning.rows import DenseRows
from parley.mpc.ring import Lattice
from parley.privacy.clipping import Clip, GradientClip, MomentumClip

SCALE_BITS = 41
BATCHES = (64, 256, 1024)
LEAST = 40
"""Measurements of each, however long they take."""


@dataclass
class Case:
    """A model, data in its shape, and the plain gradient of the mean loss."""

    name: str
    model: Model
    rows: DenseRows
    targets: NDArray[np.float64]
    plain: Callable[[NDArray[np.int64], NDArray[np.float64]], Any]


def logistic(rng: np.random.Generator) -> Case:
    """In the shape of a9a: 123 features of 0 and 1, about 14 set."""
    values = (rng.random((20_000, 123)) < 14 / 123).astype(np.float64)
    targets = rng.integers(0, 2, len(values)).astype(np.float64)

    def plain(indices: NDArray[np.int64], theta: NDArray[np.float64]) -> Any:
        x = values[indices]
        return x.T @ (1 / (1 + np.exp(-(x @ theta))) - targets[indices])

    return Case("logistic, d = 123", Linear(123, Logistic()), DenseRows.of(values, 0), targets, plain)


def perceptron(rng: np.random.Generator) -> Case:
    """784-128-128-10 with ReLU."""
    values = rng.integers(0, 256, (8_000, 784))
    targets = rng.integers(0, 10, len(values)).astype(np.float64)
    singles = (values / 256).astype(np.float32)
    shapes = [(784, 128), (128, 128), (128, 10)]

    def plain(indices: NDArray[np.int64], theta: NDArray[np.float64]) -> Any:
        layers, start = [], 0
        for width, outputs in shapes:
            end = start + width * outputs
            layers.append((theta[start:end].reshape(width, outputs).astype(np.float32), theta[end : end + outputs]))
            start = end + outputs
        inputs = [singles[indices]]
        for number, (weights, bias) in enumerate(layers):
            z = inputs[-1] @ weights + bias.astype(np.float32)
            if number < 2:
                inputs.append(np.maximum(z, 0))
        p = np.exp(z - z.max(axis=1, keepdims=True))
        delta = p / p.sum(axis=1, keepdims=True)
        delta[np.arange(len(indices)), targets[indices].astype(np.int64)] -= 1
        found = []
        for number in (2, 1, 0):
            found += [inputs[number].T @ delta, delta.sum(axis=0)]
            if number:
                delta = (delta @ layers[number][0].T) * (inputs[number] > 0)
        return found

    model = Perceptron(784, (128, 128), Softmax(10))
    return Case("perceptron, 784-128-128-10", model, DenseRows.of(values, 8), targets, plain)


def measure(seconds: float = 1.0, batches: tuple[int, ...] = BATCHES) -> list[dict[str, Any]]:
    """The rows of `parley bench gradients`."""
    rng = np.random.default_rng(0)  # data for a clock: nothing private here
    clips: dict[str, Clip] = {"one point": GradientClip(1.0), "two points": MomentumClip(1.0, 0.1, 0.3)}
    found = []
    for case in (logistic(rng), perceptron(rng)):
        theta = rng.normal(0, 0.03, case.model.dimension)
        previous = theta + rng.normal(0, 1e-3, case.model.dimension)
        for query, clip in clips.items():
            for batch in batches:
                private, plain = _private(case, clip, batch, (theta, previous)), _plain(case, theta)
                pair = _alternate(case, private, plain, batch, seconds, rng)
                found.append(
                    {
                        "model": case.name,
                        "query": query,
                        "batch": batch,
                        "records_per_second": batch / pair[0],
                        "baseline_records_per_second": batch / pair[1],
                        "ratio": pair[1] / pair[0],
                    }
                )
    return found


def _private(
    case: Case, clip: Clip, batch: int, points: tuple[NDArray[np.float64], ...]
) -> Callable[[NDArray[np.int64]], Any]:
    terms = clip.terms(1)
    bound = clip.contribution_bound(1)
    sigma = 2 * 1.3 * bound
    bits = fraction_bits(batch, bound, sigma, SCALE_BITS, case.model.largest_limit)
    lattice, present = Lattice(sigma, bits, SCALE_BITS), np.ones(batch, np.bool_)
    chosen = points[: terms.points]

    def run(indices: NDArray[np.int64]) -> Any:
        scale = Scale.of(lattice, bound, batch)
        block = case.rows.take(indices)
        return case.model.contribution(block, case.targets[indices], present, chosen, terms, scale)

    return run


def _plain(case: Case, theta: NDArray[np.float64]) -> Callable[[NDArray[np.int64]], Any]:
    return lambda indices: case.plain(indices, theta)


def _alternate(
    case: Case,
    private: Callable[[NDArray[np.int64]], Any],
    plain: Callable[[NDArray[np.int64]], Any],
    batch: int,
    seconds: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < LEAST:
        indices = rng.permutation(len(case.rows))[:batch]
        for run, kept in zip((private, plain), times, strict=True):
            start = time.perf_counter()
            run(indices)
            kept.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])
