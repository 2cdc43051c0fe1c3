"""Replacing one record never moves an encoded sum by more than the declared bound, whatever the numbers are."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parley.learning.encoding import Scale, fraction_bits
from parley.learning.models import Huber, Linear, Logistic, Model, Softmax, Squared
from parley.learning.perceptron import Perceptron
from parley.learning.proximal import SmoothedHinge
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.mpc.ring import Lattice
from parley.privacy.clipping import GradientClip, MomentumClip

FEATURES, CLASSES, RECORDS = 5, 3, 6
MODELS: dict[str, Model] = {
    "logistic": Linear(FEATURES, Logistic()),
    "softmax": Linear(FEATURES, Softmax(CLASSES)),
    "linear": Linear(FEATURES, Squared()),
    "huber": Linear(FEATURES, Huber(2.0)),
    "smoothed hinge": Linear(FEATURES, SmoothedHinge(8.0, 2.0)),
    "perceptron": Perceptron(FEATURES, (4,), Softmax(CLASSES)),
    "deep perceptron": Perceptron(FEATURES, (4, 3), Logistic(), "tanh"),
}
EXTREMES = [0.0, 1e-320, 1e-9, 1e9, 1e154, 1e308, -1e308]


def rows_of(rng: np.random.Generator, sparse: bool, bits: int) -> Rows:
    values = rng.integers(-(1 << bits), (1 << bits) + 1, (RECORDS + 1, FEATURES))
    values *= rng.random(values.shape) < rng.choice([0.3, 1.0])
    if not sparse:
        return DenseRows.of(values, bits)
    columns = np.array([rng.permutation(FEATURES)[:3] for _ in range(RECORDS + 1)])
    return SparseRows.of(columns, values[:, :3], bits, FEATURES)


def targets_of(rng: np.random.Generator, name: str) -> NDArray[np.float64]:
    if "softmax" in name or name == "perceptron":
        return rng.integers(0, CLASSES, RECORDS + 1).astype(np.float64)
    if name in ("logistic", "deep perceptron", "smoothed hinge"):
        return rng.integers(0, 2, RECORDS + 1).astype(np.float64)
    return np.asarray(rng.choice([*EXTREMES, 0.5, -3.0], RECORDS + 1), np.float64)


def point_of(rng: np.random.Generator, dimension: int) -> NDArray[np.float64]:
    point = rng.normal(0, rng.choice([1e-3, 1.0, 30.0]), dimension)
    wild = rng.random(dimension) < rng.choice([0.0, 0.1])
    return np.where(wild, rng.choice(EXTREMES, dimension), point)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    first=st.floats(1e-3, 1e3),
    second=st.floats(1e-4, 1e2),
    gamma=st.sampled_from([0.01, 0.4, 1.0]),
    noise=st.sampled_from([0.3, 1.3, 60.0]),
    sparse=st.booleans(),
    round_index=st.integers(0, 1),
)
def test_replacing_one_record_moves_the_sum_by_at_most_the_declared_bound(
    name: str, seed: int, first: float, second: float, gamma: float, noise: float, sparse: bool, round_index: int
) -> None:
    rng = np.random.default_rng(seed)
    clip = MomentumClip(first, second, gamma) if rng.random() < 0.7 else GradientClip(first)
    terms = clip.terms(round_index)
    bound = clip.contribution_bound(round_index)
    sigma = noise * 2 * bound
    lattice = Lattice(sigma, fraction_bits(RECORDS, bound, sigma, 41, 1 << 21))
    scale = Scale.of(lattice, bound, RECORDS)
    rows, targets, model = rows_of(rng, sparse, int(rng.integers(0, 11))), targets_of(rng, name), MODELS[name]
    start = point_of(rng, model.dimension)
    near = start + rng.normal(0, rng.choice([0.0, 1e-6, 1.0]), model.dimension)
    points = (start, near)[: terms.points]

    def total(members: list[int]) -> NDArray[np.int64]:
        chosen = np.array(members)
        present = np.ones(len(members), np.bool_)
        return model.contribution(rows.take(chosen), targets[chosen], present, points, terms, scale)

    everyone = list(range(RECORDS))
    neighbour = [*everyone[:-1], RECORDS]
    moved = total(everyone).astype(object) - total(neighbour).astype(object)
    allowed = 2 * Fraction(bound) / Fraction(lattice.step)
    assert sum(int(each) ** 2 for each in moved) <= allowed**2
    # One record alone keeps to half of it.
    alone = total([RECORDS]).astype(object)
    assert sum(int(each) ** 2 for each in alone) <= (allowed / 2) ** 2


def test_a_clip_is_exact_at_its_boundary() -> None:
    """A gradient of exactly the clip norm passes unchanged; one just beyond it is brought back to it."""
    lattice = Lattice(2.0, 20)
    clip = GradientClip(1.0)
    terms = clip.terms(0)
    scale = Scale.of(lattice, clip.norm, 1)
    model = Linear(2, Squared())
    rows = DenseRows.of(np.array([[3, 4]]), 0)
    present = np.ones(1, np.bool_)
    for residual, expected in ((0.2, 0.2), (0.2 + 1e-9, 0.2), (0.1, 0.1), (-7.0, -0.2)):
        answer = model.contribution(
            rows.take(np.array([0])), np.array([-residual]), present, (np.zeros(2),), terms, scale
        )
        norm = np.hypot(*lattice.decode(answer))
        assert norm <= 1.0
        np.testing.assert_allclose(lattice.decode(answer), [3 * expected, 4 * expected], atol=5 * lattice.step)


def test_an_absent_record_and_a_failing_record_contribute_zero() -> None:
    lattice = Lattice(1.0, 20)
    terms = GradientClip(1.0).terms(0)
    scale = Scale.of(lattice, 1.0, 2)
    model = Linear(2, Squared())
    rows = DenseRows.of(np.array([[3, 4], [1, 0]]), 0).take(np.array([0, 1]))
    point = (np.zeros(2),)
    one = model.contribution(rows, np.array([5.0, 1.0]), np.array([True, False]), point, terms, scale)
    failing = model.contribution(rows, np.array([5.0, np.inf]), np.array([True, True]), point, terms, scale)
    assert (one == failing).all()
    assert one.any()
