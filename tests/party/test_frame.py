"""Frames: what a record contributes in one, its exactness, and that a caller cannot make it more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parley.federation.question import answer_length
from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.encoding import Scale, fraction_bits
from parley.learning.errors import QueryError
from parley.learning.frame import BITS, Frame
from parley.learning.models import Constant, Linear, Logistic, Model, Softmax
from parley.learning.perceptron import Perceptron
from parley.learning.records import Records
from parley.learning.rows import DenseRows, SparseRows
from parley.mpc.ring import Lattice
from parley.privacy.clipping import GradientClip, MomentumClip
from parley.privacy.mechanism import Cohort, Mechanism
from parley.privacy.randomness import SystemRandomness
from parley.privacy.sampling import FixedSize

COLUMNS, COUNT = 4, 12
VALUES = np.random.default_rng(3).integers(-8, 9, (COUNT, COLUMNS))
TARGETS = np.arange(COUNT, dtype=np.float64) % 2
SHIFT, SCALE = np.array([0.5, -0.25, 0.125, 0.0]), np.array([1.0, 2.0, 0.5, 0.25])


def contributor(model: Model, bound: float = 100.0) -> Contributor:
    """Everybody takes part, and the clip is far away."""
    sampler = FixedSize(COUNT, COUNT)
    mechanism = Mechanism((Cohort("one", sampler, None),), GradientClip(bound), 1.0, 9)
    records = Records(DenseRows.of(VALUES, 2), TARGETS)
    return Contributor("one", records, model, Encoding.of(mechanism, 41, model.largest_limit), SystemRandomness())


def rounding(lattice: Lattice, frame: Frame) -> NDArray[np.float64]:
    """A residual is a whole number of steps per integer feature: half a step for each, at most, and float's share."""
    return np.asarray((0.5 + 1e-6) * lattice.step * abs(frame.rows(DenseRows.of(VALUES, 2)).values).sum(axis=0))


def test_sparse_and_dense_rows_have_the_same_frame() -> None:
    columns = np.tile(np.arange(COLUMNS), (COUNT, 1))
    frame = Frame(SHIFT, SCALE)
    dense = frame.rows(DenseRows.of(VALUES, 2))
    sparse = frame.rows(SparseRows.of(columns, VALUES, 2, COLUMNS))
    np.testing.assert_array_equal(dense.values, sparse.values)
    # Every number here is a multiple of 2^−5.
    np.testing.assert_array_equal(dense.values * 2.0**-BITS, (VALUES / 4 - SHIFT) * SCALE)


@pytest.mark.parametrize(("kind", "expected"), [("means", VALUES / 4), ("absolute means", abs(VALUES) / 4)])
def test_means_are_sums_of_framed_rows_as_long_as_a_model(kind: str, expected: NDArray[np.float64]) -> None:
    party = contributor(Linear(COLUMNS, Softmax(3)))
    shift, scale = np.zeros(3 * COLUMNS), np.ones(3 * COLUMNS)
    query = Query(0, (shift, scale), kind)
    lattice = party.encoding.lattice(0)
    answer = lattice.decode(party.contribution(query))
    assert len(answer) == answer_length(query.kind, len(query.points), 3 * COLUMNS)
    limit = rounding(lattice, Frame(shift[:COLUMNS], scale[:COLUMNS]))
    assert (abs(answer[:COLUMNS] - expected.sum(axis=0)) <= limit).all()
    assert not answer[COLUMNS:].any()


def test_a_framed_gradient_is_that_of_the_model_in_the_frame() -> None:
    """With θ_j = s_j·w_j and the shift taken off at the intercept, the chain rule gives one from the other."""
    party = contributor(Linear(COLUMNS, Logistic()))
    inner = np.array([0.3, -0.2, 0.5, 0.1])
    lattice, frame = party.encoding.lattice(0), Frame(SHIFT, SCALE)
    answer = lattice.decode(party.contribution(Query(0, (SHIFT, SCALE, inner), "framed gradient")))
    framed = (VALUES / 4 - SHIFT) * SCALE
    residuals = 1 / (1 + np.exp(-framed @ inner)) - TARGETS
    assert (abs(answer - residuals @ framed) <= rounding(lattice, frame)).all()


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    bound=st.floats(1e-3, 1e3),
    form=st.sampled_from(["plain", "absolute", "square"]),
    kind=st.sampled_from(["means", "gradient", "two points"]),
    size=st.sampled_from([1e-3, 1.0, 1e6, 1e300]),
)
def test_in_any_frame_one_record_moves_a_sum_by_at_most_the_declared_bound(
    seed: int, bound: float, form: str, kind: str, size: float
) -> None:
    rng = np.random.default_rng(seed)
    clip = MomentumClip(bound, bound / 7, 0.3) if kind == "two points" else GradientClip(bound)
    terms, sigma = clip.terms(1), 1.3 * 2 * clip.contribution_bound(1)
    lattice = Lattice(sigma, fraction_bits(COUNT, clip.contribution_bound(1), sigma, 41, 1 << 21))
    scale = Scale.of(lattice, clip.contribution_bound(1), COUNT)
    frame = Frame(rng.normal(0, size, COLUMNS), np.exp(rng.normal(0, 3, COLUMNS)), form)
    rows = frame.rows(DenseRows.of(rng.integers(-1000, 1001, (COUNT, COLUMNS)), 10))
    model = Linear(COLUMNS, Constant()) if kind == "means" else Linear(COLUMNS, Softmax(3))
    points = tuple(rng.normal(0, 3, model.dimension) for _ in range(terms.points))
    targets = rng.integers(0, 3, COUNT).astype(np.float64)

    def total(members: list[int]) -> list[int]:
        chosen = np.array(members)
        block = rows.take(chosen)
        found = model.contribution(block, targets[chosen], np.ones(len(members), np.bool_), points, terms, scale)
        return [int(each) for each in found]

    everyone = list(range(COUNT - 1))
    moved = zip(total(everyone), total([*everyone[:-1], COUNT - 1]), strict=True)
    assert sum((a - b) ** 2 for a, b in moved) <= (2 * clip.contribution_bound(1) / lattice.step) ** 2


def test_the_rows_of_a_frame_are_kept_until_another_comes() -> None:
    party = contributor(Linear(COLUMNS, Logistic()))
    shift = np.zeros(COLUMNS)
    party.contribution(Query(0, (shift, SCALE), "means"))
    kept = party.framed
    party.contribution(Query(1, (shift, SCALE), "means"))
    assert party.framed is kept
    # The very array that the first frame was made of: a stale frame would answer for another model.
    shift[0] = 1.0
    party.contribution(Query(2, (shift, SCALE), "means"))
    assert party.framed is not kept


def test_what_a_frame_cannot_be_is_refused() -> None:
    party = contributor(Linear(COLUMNS, Logistic()))
    point = np.zeros(COLUMNS)
    for points, kind, reason in (
        ((point,), "means", "first two points"),
        ((SHIFT, -SCALE), "means", "above 0"),
        ((SHIFT + np.inf, SCALE), "means", "finite"),
        ((SHIFT[:2], SCALE), "means", "4 finite numbers"),
        ((SHIFT, SCALE, point), "means", "at no point"),
        ((SHIFT, SCALE), "framed gradient", "evaluates at 1 points"),
        ((SHIFT, SCALE), "framed norms", "at one point"),
        ((SHIFT, SCALE), "cubic means", "no query of kind"),
    ):
        with pytest.raises(QueryError, match=reason):
            party.contribution(Query(0, points, kind))
    with pytest.raises(QueryError, match="use one of plain, absolute, square"):
        Frame(SHIFT, SCALE, "cube").check(COLUMNS)
    perceptron = contributor(Perceptron(COLUMNS, (2,), Logistic()))
    wide = np.ones(perceptron.model.dimension)
    with pytest.raises(QueryError, match="linear models"):
        perceptron.contribution(Query(0, (wide, wide, wide), "framed gradient"))
    # A refused query has drawn nothing and used up no round.
    party.contribution(Query(0, (SHIFT, SCALE, point), "framed gradient"))
