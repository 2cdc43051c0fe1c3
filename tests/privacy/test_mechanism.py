"""The mechanism: sensitivity, releases, batches, clipping, and that its account follows from the same fields."""

import json
import math
import subprocess
import sys
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binom, chi2

from parley.privacy.clipping import GradientClip, MomentumClip, clip_rows
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation
from parley.privacy.mechanism import ROW, Cohort, Mechanism, Unit
from parley.privacy.randomness import SystemRandomness, uniform_below
from parley.privacy.sampling import FixedSize, Poisson

SOURCE = SystemRandomness()


def momentum(steps: int = 20, initial: FixedSize | None = None) -> Mechanism:
    return Mechanism((Cohort("a", FixedSize(100, 10), initial),), MomentumClip(2.0, 0.02, 0.4), 1.5, steps)


def test_ddp_srm_has_one_release_more_than_steps_and_the_sensitivities_of_the_paper() -> None:
    run = momentum()
    assert run.releases == 21
    assert run.sensitivity(0) == pytest.approx(2 * 2.0)
    assert run.sensitivity(1) == pytest.approx(2 * (0.6 * 0.02 + 0.4 * 2.0))
    assert run.noise_deviation(5) == pytest.approx(1.5 * run.sensitivity(5))
    assert run.event("a").count == 21


def test_single_gradient_methods_release_once_per_step_with_sensitivity_twice_the_norm() -> None:
    run = Mechanism((Cohort("a", FixedSize(100, 100)),), GradientClip(2.0), 1.5, 20)
    assert (run.releases, run.sensitivity(0), run.event("a").count) == (20, 4.0, 20)


def test_a_first_batch_of_its_own_is_accounted_as_its_own_release() -> None:
    event = momentum(initial=FixedSize(100, 40)).event("a")
    assert [(part.sampler.mean_batch, part.count) for part in event.releases] == [(40, 1), (10, 20)]
    assert momentum(initial=FixedSize(100, 40)).draw("a", 0, SOURCE).indices.shape == (40,)
    assert momentum(initial=FixedSize(100, 40)).draw("a", 1, SOURCE).indices.shape == (10,)


@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-1e300, 1e300)),
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3)),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1),
)
def test_no_contribution_is_ever_longer_than_its_bound(
    gradients: np.ndarray, previous: np.ndarray, first: float, second: float, gamma: float
) -> None:
    clip = MomentumClip(first, second, gamma)
    for round_index in (0, 1):
        for row in clip.terms(round_index).of(gradients, previous):
            length = math.sqrt(math.fsum(float(x) ** 2 for x in row))
            assert length <= clip.contribution_bound(round_index)


def test_a_gradient_that_is_not_finite_contributes_zero_and_stays_present() -> None:
    rows = np.array([[np.nan, 1.0], [np.inf, 0.0], [3.0, 4.0]])
    clipped = clip_rows(rows, 1.0)
    assert np.all(clipped[:2] == 0)
    assert np.linalg.norm(clipped[2]) == pytest.approx(1.0)
    assert np.all(MomentumClip(1.0, 1.0, 0.5).terms(1).of(rows, np.zeros((3, 2)))[:2] == 0)


def test_clipping_leaves_short_rows_alone_and_survives_extreme_ones() -> None:
    rows = np.array([[0.3, 0.4], [0.0, 0.0], [1e308, 1e308], [5e-324, 0.0]])
    clipped = clip_rows(rows, 1.0)
    assert np.array_equal(clipped[[0, 1, 3]], rows[[0, 1, 3]])
    assert np.linalg.norm(clipped[2]) == pytest.approx(1.0)


def test_batches_without_replacement_are_uniform_over_all_subsets() -> None:
    # Chi-square over the C(6, b) subsets; each of three batches false-alarms once in a million runs.
    for size in (2, 3, 4):
        sampler = FixedSize(6, size)
        counts = Counter(tuple(sampler.draw(SOURCE).indices) for _ in range(6000))
        subsets = math.comb(6, size)
        expected = 6000 / subsets
        statistic = sum((counts.get(key, 0) - expected) ** 2 / expected for key in counts)
        statistic += (subsets - len(counts)) * expected
        assert statistic < chi2.isf(1e-6, subsets - 1)


def test_poisson_batches_have_the_binomial_law_up_to_the_cap_and_one_public_length() -> None:
    sampler = Poisson(12, 4, 9)
    sizes: Counter[int] = Counter()
    hits = np.zeros(12)
    for _ in range(6000):
        batch = sampler.draw(SOURCE)
        assert len(batch.indices) == 9
        assert len(set(batch.indices.tolist())) == 9
        sizes[int(batch.present.sum())] += 1
        hits[batch.indices[batch.present]] += 1
    law = [binom.pmf(size, 12, 1 / 3) for size in range(9)] + [binom.sf(8, 12, 1 / 3)]
    statistic = sum((sizes.get(size, 0) - 6000 * p) ** 2 / (6000 * p) for size, p in enumerate(law))
    assert statistic < chi2.isf(1e-6, 9)
    assert np.all(np.abs(hits - hits.mean()) < 6 * math.sqrt(6000 * 2 / 9))


@given(st.integers(1, 3000), st.data())
@settings(max_examples=60)
def test_the_overflow_probability_is_never_understated(units: int, data: st.DataObject) -> None:
    expected = data.draw(st.integers(1, units))
    cap = data.draw(st.integers(expected, units))
    exact = float(binom.sf(cap, units, expected / units))
    assert Poisson(units, expected, cap).overflow_probability >= exact * (1 - 1e-9)


def test_the_default_cap_is_the_smallest_that_keeps_the_allowance() -> None:
    sampler = Poisson.with_overflow(32561, 100, 651, 1e-8)
    assert 651 * sampler.overflow_probability <= 1e-8
    assert 651 * Poisson(32561, 100, sampler.cap - 1).overflow_probability > 1e-8


def test_integers_below_a_bound_are_uniform() -> None:
    counts = Counter(uniform_below(SOURCE, 7) for _ in range(7000))
    assert sum((counts[i] - 1000) ** 2 / 1000 for i in range(7)) < chi2.isf(1e-6, 6)


def test_rejection_sampling_draws_again_where_a_remainder_would_favour_small_numbers() -> None:
    class Scripted:
        words: ClassVar[list[int]] = [(1 << 64) - 1, 5]

        def read(self, count: int) -> bytes:
            return self.words.pop(0).to_bytes(count, "little")

    assert uniform_below(Scripted(), 3) == 5 % 3
    assert Scripted.words == []


@pytest.mark.parametrize("kind", ["wor", "poisson"])
def test_a_mechanism_survives_its_canonical_form(kind: str) -> None:
    sampler = FixedSize(100, 10) if kind == "wor" else Poisson(100, 10, 30)
    run = Mechanism((Cohort("a", sampler),), MomentumClip(1.0, 0.1, 0.5), 2.0, 7, Unit("patient"))
    stored = json.loads(json.dumps(run.as_json()))
    assert Mechanism.from_json(stored) == run
    assert Mechanism.from_json(stored).digest == run.digest
    assert Event.from_json(run.event("a").as_json()) == run.event("a")


def test_a_field_that_is_not_accounted_is_refused() -> None:
    stored = momentum().as_json() | {"public_data": True}
    with pytest.raises(InvalidParameterError, match="not accounted"):
        Mechanism.from_json(stored)


def test_the_digest_changes_with_every_field() -> None:
    run = momentum()
    others = [
        Mechanism(run.cohorts, run.clip, 1.6, 20),
        Mechanism(run.cohorts, run.clip, 1.5, 21),
        Mechanism(run.cohorts, MomentumClip(2.0, 0.02, 0.5), 1.5, 20),
        Mechanism(run.cohorts, run.clip, 1.5, 20, Unit("patient")),
        Mechanism((Cohort("a", FixedSize(100, 11)),), run.clip, 1.5, 20),
    ]
    assert len({run.digest, *(other.digest for other in others)}) == 6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FixedSize(10, 11), "exceeds"),
        (lambda: FixedSize(10, 0), "whole number"),
        (lambda: FixedSize(10, True), "whole number"),
        (lambda: Poisson(10, 5, 4), "cap"),
        (lambda: MomentumClip(1.0, 1.0, 0.0), "gamma"),
        (lambda: MomentumClip(1.0, 1.0, 1.5), "gamma"),
        (lambda: GradientClip(math.nan), "finite"),
        (lambda: Unit(" "), "column"),
        (lambda: Mechanism((), GradientClip(1.0), 1.0, 1), "party"),
        (lambda: Mechanism((Cohort("a", FixedSize(9, 3)),) * 2, GradientClip(1.0), 1.0, 1), "one name"),
        (lambda: Mechanism((Cohort("a", FixedSize(9, 3)),), GradientClip(1.0), math.inf, 1), "noise"),
        (lambda: Mechanism((Cohort("a", FixedSize(9, 3)),), GradientClip(1.0), 1.0, -1), "rounds"),
        (
            lambda: Mechanism(
                (Cohort("a", FixedSize(9, 3)),), GradientClip(1.0), 1.0, 1, ROW, NeighbouringRelation.ADD_OR_REMOVE
            ),
            "add-or-remove",
        ),
        (lambda: momentum().draw("b", 0, SOURCE), "no party"),
        (lambda: momentum().draw("a", 21, SOURCE), "round"),
        (lambda: momentum().clip.terms(1).of(np.zeros((2, 2)), None), "previous"),
    ],
)
def test_bad_settings_are_refused_in_one_line_that_says_what_to_change(build: object, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message) as refusal:
        build()  # type: ignore[operator]
    assert "\n" not in str(refusal.value)


def test_what_a_party_holds_for_days_imports_neither_scipy_nor_dp_accounting() -> None:
    code = "import sys; from parley.privacy import claim, filters, ledger, mechanism; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"scipy", "dp_accounting", "absl"} & {name.split(".")[0] for name in loaded}


def test_a_number_and_its_float_are_one_mechanism_with_one_digest() -> None:
    cohorts = (Cohort("a", FixedSize(100, 10)),)
    whole = Mechanism(cohorts, MomentumClip(2, 1, 1), 4, 20)
    assert whole.digest == Mechanism(cohorts, MomentumClip(2.0, 1.0, 1.0), 4.0, 20).digest
    assert whole.event("a").as_json() == Mechanism(cohorts, MomentumClip(2.0, 1.0, 1.0), 4.0, 20).event("a").as_json()
