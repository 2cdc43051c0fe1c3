"""A site's fit has the claim, the noise and the path of a federation, and a key that nobody keeps."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from parley.learning.readers import Dense
from parley.learning.records import Records, encode
from parley.privacy.accountants import accountant
from parley.study.batch_runs import federation_of, plan_for
from parley.study.card import card_of
from parley.study.errors import StudyError
from parley.study.fit_costs import SPENDING, Total
from parley.study.one_site import SITE, Fitted, Privacy, play, prepare, usual_delta
from parley.study.simulation import calibrate
from parley.study.study import Study

SCHEMA: dict[str, Any] = {
    "features": {"count": 3, "low": -1, "high": 1},
    "target": {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    "intercept": True,
}


def study(**more: Any) -> Study:
    return Study(SCHEMA, **{"epsilon": 2.0, "own": 0.0, **more})


def records(rows: int = 200, seed: int = 0) -> Records:
    values = np.random.default_rng(seed).uniform(-1, 1, (rows, 3))
    return encode(Dense(values, (values[:, 0] > 0).astype(int)), study().schema)


def test_the_claim_is_what_an_accountant_says_of_the_mechanism_and_no_more_than_was_asked_for() -> None:
    prepared = prepare(study(), records())
    calibrated, mechanism = prepared.calibrated, prepared.mechanism
    assert 1.99 < calibrated.epsilon <= 2.0
    (event,) = mechanism.events().values()
    exact = accountant("pld").epsilon(event, 1e-5).epsilon
    assert exact <= calibrated.epsilon, "the finite sampler's terms are in it"
    assert mechanism.sampler(SITE, 0).units == 200
    least = calibrate(*_as_wanted(prepared), 2.0, 1e-5).mechanism.noise_multiplier
    assert mechanism.noise_multiplier >= least


def _as_wanted(prepared: Any) -> tuple[Any, dict[str, int]]:
    return plan_for(prepared.study, 200), {SITE: 200}


def test_plan_and_noise_are_those_of_other_records_of_the_same_number() -> None:
    one, other = prepare(study(), records(seed=1)), prepare(study(), records(seed=2))
    assert one.calibrated is other.calibrated
    assert prepare(study(), records(rows=201)).mechanism != one.mechanism


def test_every_play_has_its_own_noise() -> None:
    prepared = prepare(study(), records())
    federation = federation_of(prepared, 1)
    assert federation.noise
    assert federation.noise_level() == pytest.approx(
        prepared.mechanism.noise_deviation(1) / prepared.mechanism.expected_batch(1)
    )
    thetas = {play(prepared).theta.tobytes() for _ in range(4)}
    assert len(thetas) == 4


def test_what_is_not_private_is_not_fitted() -> None:
    with pytest.raises(StudyError, match="is not private"):
        prepare(study(algorithm={"name": "storm", "passes": 1, "batch": 20}), records())


@pytest.mark.parametrize("asked", [{"epsilon": 40.0}, {"epsilon": 1e-4}, {"delta": 1e-16}])
def test_what_the_noise_cannot_carry_is_refused_with_what_it_can(asked: dict[str, float]) -> None:
    with pytest.raises(StudyError, match=r"no certified noise reaches .* use an epsilon from 0\.01 to 10"):
        prepare(study(**asked), records())


@pytest.mark.parametrize(("units", "delta"), [(1, 1e-5), (10_000, 1e-5), (20_000, 5e-6), (10**9, 1e-10)])
def test_delta_is_well_below_one_over_the_number_of_units(units: int, delta: float) -> None:
    assert usual_delta(units) == pytest.approx(delta)


def test_privacy_says_what_this_fit_and_all_fits_of_its_records_cost() -> None:
    wanted = study()
    fit = play(prepare(wanted, records()))
    known = SPENDING.digests([b"test_one_site 1", b"test_one_site 2"])
    SPENDING.charge(known, float(fit.epsilon or 0), 1e-5)
    privacy = Privacy(wanted, fit, known)
    assert privacy.sentence == card_of(wanted, fit, False, Total())["statement"]
    assert str(privacy) == privacy.sentence
    SPENDING.charge(known[:1], 1.0, 1e-5)
    assert privacy.total == Total(2, privacy.epsilon + 1.0, 2e-5)
    assert "2 fits of these records in this process cost epsilon 3 at delta 2e-05 together" in repr(privacy)
    copied = pickle.loads(pickle.dumps(privacy))
    assert copied.total == SPENDING.everything
    SPENDING.charge(known[1:], 1.0, 1e-5)
    assert copied.total == SPENDING.everything, "a copy in this process counts what came after it too"
    assert pickle.loads(pickle.dumps(copied)).total == copied.total


def test_a_card_has_the_fields_of_a_simulated_model_and_counts_all_fits_of_the_process() -> None:
    wanted = study()
    fitted = Fitted.of(wanted, play(prepare(wanted, records())))
    card = fitted.with_card().card
    assert card["parties"] == {SITE: 200}
    assert card["fits"] == SPENDING.everything.fits
    assert {*card} == {*card_of(wanted, fitted.fit, False, Total())}


def test_a_card_that_is_written_in_another_process_still_counts_the_fits_of_this_one() -> None:
    wanted = study()
    SPENDING.charge([], 1.0, 1e-5)
    fitted = Fitted.of(wanted, play(prepare(wanted, records())))
    program = "import pickle, sys; c = pickle.load(sys.stdin.buffer).with_card().card; print(c['fits'], c['statement'])"
    ran = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(fitted), capture_output=True, check=True)
    fits, statement = ran.stdout.decode().split(maxsplit=1)
    assert int(fits) == SPENDING.everything.fits >= 1
    assert fits == "1" or f"{fits} fits were shown" in statement
