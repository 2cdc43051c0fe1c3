"""The ε of a simulated run holds the noise certificate's terms, and only just."""

import pytest

from parley.algorithms.algorithm import Setting
from parley.algorithms.registry import build
from parley.mpc.parts import NoiseParts
from parley.privacy.errors import InvalidParameterError
from parley.privacy.finite_precision import EXACT
from parley.privacy.mechanism import Unit
from parley.study.certified import calibrate_certified
from parley.study.simulation import calibrate

SIZES = {"a": 600, "b": 400}


def test_the_claim_is_within_the_target_and_dearer_than_exact_noise() -> None:
    plan = build("dp-sgd", {"batch": 50, "passes": 1.0}).plan(
        Setting(records=1000, dimension=6, epsilon=0.5, delta=1e-5)
    )
    exact = calibrate(plan, SIZES, 0.5, 1e-5)
    real = calibrate_certified(plan, SIZES, 6, 0.5, 1e-5, "pld", Unit())
    assert real.claim is not None
    assert real.claim.precision != EXACT
    assert real.claim.precision.samples >= 6 * plan.releases
    assert 0.99 * 0.5 < real.claim.epsilon <= 0.5
    assert (
        real.epsilon == real.claim.epsilon == pytest.approx(real.claim.gaussian.epsilon + 2 * real.claim.precision.xi)
    )
    assert 1 < real.mechanism.noise_multiplier / exact.mechanism.noise_multiplier < 1.01


def test_own_parts_are_in_the_claim_and_in_its_certificate() -> None:
    plan = build("dp-sgd", {"batch": 50, "passes": 1.0}).plan(
        Setting(records=1000, dimension=6, epsilon=0.5, delta=1e-5)
    )
    parts = NoiseParts("semi-honest", 1.0)
    made = calibrate_certified(plan, SIZES, 6, 0.5, 1e-5, "pld", Unit(), parts)
    assert made.claim is not None
    assert made.claim.precision.samples == 2 * 64 * plan.releases
    assert made.claim.epsilon < (made.claim.epsilon_if_a_server_lies or 0) < 2


def test_a_run_that_no_preset_can_certify_is_refused() -> None:
    plan = build("dp-sgd", {"batch": 50, "passes": 1.0}).plan(
        Setting(records=1000, dimension=10**9, epsilon=0.05, delta=1e-9)
    )
    with pytest.raises(InvalidParameterError, match="20,000,000,000 samples"):
        calibrate_certified(plan, SIZES, 10**9, 0.05, 1e-9, "pld", Unit())


def test_a_run_without_noise_claims_nothing() -> None:
    plan = build("storm", {}).plan(Setting(records=1000, dimension=6, epsilon=0.5, delta=1e-5))
    assert calibrate_certified(plan, SIZES, 6, 0.5, 1e-5, "pld", Unit()).claim is None
