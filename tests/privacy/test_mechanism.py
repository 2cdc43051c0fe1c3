"""The mechanism: sensitivity, releases, batches, clipping, and that its account follows from the same fields."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from parley.privacy.clipping import GradientClip, MomentumClip
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation
from parley.privacy.mechanism import ROW, Cohort, Mechanism, Unit
from parley.privacy.sampling import FixedSize, Poisson
from tests.support.mechanisms import SOURCE


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
