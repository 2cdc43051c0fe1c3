"""A contribution is total: what could be refused is refused by public facts, and no record makes an answer fail."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.federation.errors import ManifestError
from parley.federation.question import LocalFit
from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.errors import QueryError, SchemaError
from parley.learning.frame import Frame, largest_entry
from parley.learning.models import Linear, Logistic, Model, Softmax
from parley.learning.perceptron import MOST_FEATURES, MOST_HIDDEN, Perceptron
from parley.learning.readers import Table
from parley.learning.records import Records, encode
from parley.learning.rows import DenseRows
from parley.learning.schema import LARGEST_SQUARED, schema_from_json
from parley.mpc.ring import Lattice
from parley.mpc.tables import FORMATS
from parley.privacy.clipping import Clip, GradientClip, MomentumClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.randomness import SystemRandomness
from parley.privacy.sampling import FixedSize
from tests.support.documents import manifest

SCALE_BITS = FORMATS["standard"].scale_bits


@pytest.mark.parametrize("columns", [1, 255, 256, 257, 300, 8192])
def test_a_framed_row_is_cut_to_what_can_be_counted_whatever_its_entries(columns: int) -> None:
    """At 2^14 in each of 256 columns a row reaches 2^52 steps, at which a party used to refuse its own records."""
    rows = DenseRows.of(np.array([[1] * columns, [-1] * columns, [0] * columns]), 0)
    frame = Frame(np.zeros(columns), np.full(columns, 1e300))
    for shown in (frame.rows(rows), Frame(frame.shift, frame.scale, "square").rows(rows)):
        assert shown.norms.squared.max() < LARGEST_SQUARED
        assert np.abs(shown.values).max() == largest_entry(columns)
        # The type is no record's to choose: how fast rows are read would tell.
        assert shown.values.dtype == frame.rows(DenseRows.of(np.zeros((3, columns)), 0)).values.dtype
    if columns <= 255:
        assert largest_entry(columns) == 1 << 22


@pytest.mark.parametrize(("features", "hidden"), [(MOST_FEATURES + 1, (1,)), (3, (MOST_HIDDEN + 1,)), (3, (4, 0))])
def test_a_perceptron_too_wide_for_float32_is_refused(features: int, hidden: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError):
        Perceptron(features, hidden, Logistic())


@settings(max_examples=200, deadline=None)
@given(
    bounds=st.lists(st.tuples(st.floats(-50, 50), st.floats(0.01, 90), st.floats(-60, 60), st.floats(1.0, 200)),
                    min_size=1, max_size=4),
    bits=st.integers(0, 16),
    intercept=st.booleans(),
)  # fmt: skip
def test_no_encoded_row_is_longer_than_the_schemas_bound(
    bounds: list[tuple[float, float, float, float]], bits: int, intercept: bool
) -> None:
    """Rounding to integers makes rows longer than what the bounds of their columns add up to."""
    features = [
        {"name": f"c{index}", "low": low, "high": low + width, "centre": centre, "spread": spread}
        for index, (low, width, centre, spread) in enumerate(bounds)
    ]
    target = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
    schema = schema_from_json({"features": features, "target": target, "intercept": intercept, "bits": bits})
    ends = [[low, low + width, 1e9, -1e9] for low, width, _, _ in bounds]
    cells: dict[str, Sequence[Any]] = {"y": ["1"] * 4}
    cells.update({f"c{index}": [str(each) for each in values] for index, values in enumerate(ends)})
    records = encode(Table(cells, 4), schema)
    squared = Fraction(int(records.rows.norms.squared.max()), 4**records.rows.bits)
    # The root is rounded, to the nearest float.
    assert squared <= Fraction(schema.feature_bound) ** 2 * (1 + Fraction(1, 2**51))
    assert records.row_bound == schema.feature_bound


def party(
    clip: Clip, noise: float, model: Model, bits: int = 16, unit: str | None = None, releases: int = 3
) -> Contributor:
    mechanism = Mechanism((Cohort("a", FixedSize(4, 4)),), clip, noise, releases, Unit(unit))
    rows = DenseRows.of(np.arange(12).reshape(4, 3), 4)
    records = Records(rows, np.array([0.0, 1.0, 0.0, 1.0]), unit, np.arange(4)[:, None], row_bound=2.0)
    return Contributor("a", records, model, Encoding(mechanism, bits, SCALE_BITS), SystemRandomness())


def test_what_cannot_be_counted_is_refused_by_the_check_and_not_in_the_middle_of_an_answer() -> None:
    model = Linear(3, Logistic())
    point = (np.zeros(3),)
    for made, reason in (
        (party(GradientClip(1e-28), 1.0, model, 24), "the lattice's step is 1.19209e-35"),
        (party(GradientClip(1.0), 0.05, model, 24), "lattice steps"),
        (party(GradientClip(1.0), 1e5, model, 1), "must span 1 to"),
    ):
        with pytest.raises(QueryError, match=reason):
            made.check(Query(0, point))
    with pytest.raises(QueryError, match="round is 3"):
        party(GradientClip(1.0), 1.0, model).check(Query(3, point))
    fit = LocalFit("descent", 1, 1.0, 0.0, 2.0)
    with pytest.raises(QueryError, match="protects rows"):
        party(GradientClip(100.0), 1.0, model, unit="patient", releases=1).check(Query(0, point, "solution", 1.0, fit))
    with pytest.raises(QueryError, match="the schema admits 2:"):
        short = LocalFit("descent", 1, 1.0, 0.0, 1.999)
        party(GradientClip(100.0), 1.0, model, releases=1).check(Query(0, point, "solution", 1.0, short))


def test_a_record_whose_arithmetic_fails_counts_as_zero_and_touches_no_other() -> None:
    """A perceptron's gradient of exactly zero under a weight beyond float32 used to make the whole sum none."""
    model = Perceptron(3, (4,), Softmax(2))
    bias = np.zeros(model.dimension)
    bias[-2:] = [1e4, 0.0]  # whoever is of class 0 has a residual of zero
    made = party(GradientClip(3e-24), 4.0, model)
    answers = []
    for labels in ([0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]):
        made.records.targets[:] = labels
        answers.append(made.contribution(Query(made.last_round + 1, (bias,), "gradient", 2.0**40)))
    assert answers[0].any()
    assert answers[1].any()
    assert not answers[2].any()


@settings(max_examples=300, deadline=None)
@given(
    multiplier=st.floats(0.05, 1e7),
    first=st.floats(1e-20, 1e12),
    second=st.floats(1e-20, 1e12),
    gamma=st.floats(1e-30, 1.0),
    bits=st.integers(1, 24),
)
def test_noise_never_falls_short_of_the_multiplier_that_is_accounted(
    multiplier: float, first: float, second: float, gamma: float, bits: int
) -> None:
    """Not by a last digit either: exact integers of a record against exact integers of the noise."""
    mechanism = Mechanism((Cohort("a", FixedSize(4, 4)),), MomentumClip(first, second, gamma), multiplier, 3)
    for index in (0, 1):
        sigma, bound = mechanism.noise_deviation(index), mechanism.clip.contribution_bound(index)
        assert Fraction(sigma) >= Fraction(multiplier) * Fraction(mechanism.sensitivity(index))
        assert sigma <= multiplier * mechanism.sensitivity(index) * (1 + 2.0**-51)
        longest = Lattice(sigma, bits).steps_within(bound)
        assert Fraction(2 * longest) * Fraction(multiplier) <= 1 << bits


@pytest.mark.parametrize("value", [0.99e-30, 1.01e30, 5e-324, 2.73e-312, 1e-300])
def test_numbers_beyond_what_float64_holds_well_are_refused_everywhere(value: float) -> None:
    with pytest.raises(InvalidParameterError, match="from 1e-30 to 1e"):
        GradientClip(value)
    for norms in ((value, 1.0), (1.0, value)):
        with pytest.raises(InvalidParameterError, match="from 1e-30 to 1e"):
            MomentumClip(*norms, 0.5)
    if value < 1:
        with pytest.raises(InvalidParameterError, match="gamma is"):
            MomentumClip(1.0, 1.0, value)
        with pytest.raises(ManifestError, match=r"mechanism\.clip\.norm"):
            manifest(**{"mechanism.clip": {"kind": "gradient", "norm": value}})
        for name in ("gradient_norm", "difference_norm", "gamma"):
            with pytest.raises(ManifestError, match=rf"mechanism\.clip\.{name}"):
                manifest(**{f"mechanism.clip.{name}": value})


def test_a_manifest_whose_noise_or_step_is_too_small_to_count_with_is_refused() -> None:
    tiny = {"kind": "gradient", "norm": 1e-30}
    with pytest.raises(ManifestError, match="the noise's deviation is 2e-31"):
        manifest(**{"mechanism.clip": tiny, "mechanism.noise_multiplier": 0.1})
    with pytest.raises(ManifestError, match="the lattice's step is"):
        manifest(**{"mechanism.clip": tiny, "mechanism.noise_multiplier": 10.0})
