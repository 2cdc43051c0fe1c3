"""The accountants against the table of the design, against each other, and against the library they lean on."""

import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.privacy.accountants import ACCOUNTANTS, accountant, worst_party
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation
from parley.privacy.mechanism import Mechanism
from tests.support.events import DELTA, LOWER, PLD, RDP, poisson, wor


def test_the_librarys_two_meanings_of_a_noise_multiplier_under_replace_one() -> None:
    # The trap: RDP takes the noise over the sensitivity 2K, PLD over the contribution bound K.
    event = dp_accounting.GaussianDpEvent(10.0)
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    by_rdp = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation).compose(event).get_epsilon(DELTA)
    by_pld = PLDAccountant(relation).compose(event).get_epsilon(DELTA)
    assert by_rdp == pytest.approx(0.375, abs=5e-4)
    assert by_pld == pytest.approx(0.726, abs=5e-4)
    doubled = PLDAccountant(relation).compose(dp_accounting.GaussianDpEvent(20.0)).get_epsilon(DELTA)
    assert PLD.epsilon(wor(1, 1, 1, 10.0), DELTA).epsilon == pytest.approx(doubled, rel=1e-3)
    assert RDP.epsilon(wor(1, 1, 1, 10.0), DELTA).epsilon == pytest.approx(by_rdp, rel=5e-3)


@pytest.mark.parametrize(("rate", "noise", "rounds"), [(0.01, 0.7, 200), (0.1, 1.5, 50), (0.5, 3.0, 10)])
def test_poisson_agrees_with_the_library_in_both_relations(rate: float, noise: float, rounds: int) -> None:
    # `noise` is over the sensitivity 2K; the library's standard deviation is over K.
    event = poisson(1000, round(1000 * rate), rounds, noise)
    library = dp_accounting.NeighboringRelation
    for mine, its in (
        (NeighbouringRelation.REPLACE_ONE, library.REPLACE_ONE),
        (NeighbouringRelation.ADD_OR_REMOVE, library.ADD_OR_REMOVE_ONE),
    ):
        expected = from_gaussian_mechanism(
            2 * noise, sampling_prob=rate, value_discretization_interval=1e-4, neighboring_relation=its
        )
        theirs = expected.self_compose(rounds).get_epsilon_for_delta(DELTA)
        assert PLD.epsilon(Event(event.releases, mine), DELTA).epsilon == pytest.approx(theirs, rel=5e-3)


@given(
    st.integers(2, 5000),
    st.floats(0.01, 1),
    st.floats(0.4, 8),
    st.integers(1, 300),
    st.sampled_from([1e-8, 1e-5, 1e-2]),
    st.sampled_from(["wor", "poisson"]),
)
@settings(max_examples=15, deadline=None)
def test_lower_is_below_pld_is_below_rdp(
    units: int, share: float, noise: float, rounds: int, delta: float, kind: str
) -> None:
    batch = max(1, int(units * share))
    event = (wor if kind == "wor" else poisson)(units, batch, rounds, noise)
    pld = PLD.epsilon(event, delta).epsilon
    assert pld <= RDP.epsilon(event, delta).epsilon * (1 + 1e-3) + 1e-9
    assert LOWER.epsilon(event, delta).epsilon <= pld * (1 + 1e-9)


@pytest.mark.slow
@given(
    st.integers(50, 5000), st.integers(1, 40), st.floats(0.5, 8), st.integers(1, 200), st.sampled_from(["pld", "rdp"])
)
@settings(max_examples=12, deadline=None)
def test_epsilon_grows_with_rounds_and_rate_and_falls_with_noise_and_delta(
    units: int, batch: int, noise: float, rounds: int, name: str
) -> None:
    chosen = accountant(name)
    here = chosen.epsilon(wor(units, batch, rounds, noise), DELTA).epsilon
    slack = 1 + 5e-4
    assert chosen.epsilon(wor(units, batch, rounds + 1, noise), DELTA).epsilon * slack >= here
    assert chosen.epsilon(wor(units, batch + 1, rounds, noise), DELTA).epsilon * slack >= here
    assert chosen.epsilon(wor(units, batch, rounds, noise * 1.05), DELTA).epsilon <= here * slack
    assert chosen.epsilon(wor(units, batch, rounds, noise), 10 * DELTA).epsilon <= here * slack


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_delta_and_epsilon_are_inverse_and_reading_changes_nothing(name: str) -> None:
    chosen = accountant(name)
    event = wor(1000, 30, 100, 1.2)
    before = chosen.epsilon(event, DELTA)
    assert chosen.delta(event, before.epsilon) == pytest.approx(DELTA, rel=2e-2)
    assert chosen.epsilon(event, DELTA) == before


def test_a_sampling_rate_below_delta_needs_no_noise_to_speak_of() -> None:
    assert PLD.epsilon(wor(10**6, 1, 1, 0.5), DELTA).epsilon == 0.0


def test_unequal_parties_stand_at_their_own_rates_and_the_worst_is_reported(mechanism: Mechanism) -> None:
    party, reading = worst_party(PLD, mechanism, DELTA)
    assert party == "south"
    assert reading.epsilon == PLD.epsilon(mechanism.event("south"), DELTA).epsilon
    assert reading.epsilon > PLD.epsilon(mechanism.event("north"), DELTA).epsilon


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf, True])
@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_a_delta_outside_of_0_and_1_is_refused(name: str, delta: float) -> None:
    with pytest.raises(InvalidParameterError, match="delta"):
        accountant(name).epsilon(wor(100, 10, 1), delta)


def test_an_unknown_accountant_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidParameterError, match="pld, rdp, paper, lower"):
        accountant("moments")
