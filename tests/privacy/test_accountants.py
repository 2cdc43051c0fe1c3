"""The accountants against the table of the design, against each other, and against the library they lean on."""

import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.privacy.accountants import ACCOUNTANTS, accountant, trajectory, worst_party
from parley.privacy.calibration import largest_count, smallest_noise
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation, SampledGaussian
from parley.privacy.mechanism import Mechanism
from parley.privacy.paper_accountant import PaperAccountant
from parley.privacy.rdp_accountant import RdpAccountant
from parley.privacy.sampling import FixedSize, Poisson

A9A = 32561
DELTA = 1e-5
# ε, batch, rounds; then σ' by Lemma 3.7 with its conditions ignored, RDP, PLD, the lower bound, Poisson.
SETTINGS = [
    (0.2, 50, 1302, 3.53, 2.17, 1.32, 1.17, 0.91),
    (0.2, 100, 651, 5.00, 2.97, 1.69, 1.51, 1.28),
    (0.2, 200, 326, 7.07, 4.16, 2.22, 2.02, 1.81),
    (0.5, 50, 1628, 1.59, 1.32, 0.88, 0.83, 0.48),
    (0.5, 100, 814, 2.25, 1.57, 1.05, 0.97, 0.64),
    (0.5, 200, 407, 3.18, 2.10, 1.30, 1.19, 0.88),
]
PLD = accountant("pld")
RDP = RdpAccountant()
LOWER = accountant("lower")


def wor(units: int, batch: int, rounds: int, noise: float = 1.0) -> Event:
    return Event((SampledGaussian(FixedSize(units, batch), noise, rounds),))


def poisson(units: int, batch: int, rounds: int, noise: float = 1.0, cap: int | None = None) -> Event:
    return Event((SampledGaussian(Poisson(units, batch, units if cap is None else cap), noise, rounds),))


@pytest.mark.parametrize(("epsilon", "batch", "rounds", "paper", "rdp", "pld", "lower", "poisson_"), SETTINGS)
def test_the_designs_table_is_reached(
    epsilon: float, batch: int, rounds: int, paper: float, rdp: float, pld: float, lower: float, poisson_: float
) -> None:
    event = wor(A9A, batch, rounds)
    noise, reading = smallest_noise(PLD, event, epsilon, DELTA)
    assert noise <= pld * 1.02
    assert reading.epsilon <= epsilon
    assert LOWER.epsilon(event.with_noise(noise), DELTA).epsilon <= epsilon
    assert LOWER.epsilon(event.with_noise(lower), DELTA).epsilon == pytest.approx(epsilon, rel=0.02)
    assert RDP.epsilon(event.with_noise(rdp), DELTA).epsilon == pytest.approx(epsilon, rel=0.01)
    figures = PaperAccountant(ignore_conditions=True)
    assert figures.epsilon(event.with_noise(paper), DELTA).epsilon == pytest.approx(epsilon, rel=0.01)
    assert smallest_noise(PLD, poisson(A9A, batch, rounds), epsilon, DELTA)[0] == pytest.approx(poisson_, rel=0.02)


@pytest.mark.parametrize(("batch", "rounds", "least"), [(50, 1302, 0.97), (100, 651, 1.42), (200, 326, 2.09)])
def test_the_papers_lemma_refuses_its_own_settings_and_says_which_condition_fails(
    batch: int, rounds: int, least: float
) -> None:
    chosen = PaperAccountant()
    assert chosen.smallest_certifiable(wor(A9A, batch, rounds), DELTA) == pytest.approx(least, rel=0.02)
    with pytest.raises(ConditionsUnmetError, match=r"alpha = .* exceeds"):
        chosen.epsilon(wor(A9A, batch, rounds, 5.0), DELTA)
    with pytest.raises(ConditionsUnmetError, match="no noise reaches"):
        smallest_noise(chosen, wor(A9A, batch, rounds), 0.2, DELTA)


def test_the_papers_lemma_needs_enough_noise_and_certifies_where_it_holds() -> None:
    with pytest.raises(ConditionsUnmetError, match=r"below 0\.7"):
        PaperAccountant().epsilon(wor(A9A, 50, 10, 0.5), DELTA)
    event = wor(100_000, 100, 120_000, 3.0)
    reading = PaperAccountant().epsilon(event, 0.01)
    assert PLD.epsilon(event, 0.01).epsilon <= reading.epsilon
    assert reading.rdp_order is not None
    assert reading.rdp_order >= 2
    with pytest.raises(InvalidParameterError, match="fixed-size"):
        PaperAccountant().epsilon(poisson(100, 10, 1), DELTA)


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


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.6, 3), st.floats(0.6, 3))
@settings(max_examples=10, deadline=None)
def test_composition_commutes_and_associates(first: int, second: int, noise: float, other: float) -> None:
    one = SampledGaussian(FixedSize(500, 20), noise, first)
    two = SampledGaussian(FixedSize(500, 70), other, second)
    split = SampledGaussian(one.sampler, noise, 1)
    forward = PLD.epsilon(Event((one, two)), DELTA).epsilon
    assert PLD.epsilon(Event((two, one)), DELTA).epsilon == pytest.approx(forward, rel=1e-9)
    more = SampledGaussian(one.sampler, noise, first + 1)
    assert PLD.epsilon(Event((one, two, split)), DELTA).epsilon == pytest.approx(
        PLD.epsilon(Event((more, two)), DELTA).epsilon, rel=1e-6
    )


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_delta_and_epsilon_are_inverse_and_reading_changes_nothing(name: str) -> None:
    chosen = accountant(name)
    event = wor(1000, 30, 100, 1.2)
    before = chosen.epsilon(event, DELTA)
    assert chosen.delta(event, before.epsilon) == pytest.approx(DELTA, rel=2e-2)
    assert chosen.epsilon(event, DELTA) == before


@pytest.mark.parametrize(
    ("units", "batch", "rounds", "noise"),
    [
        (32561, 1, 1, 1.0),
        (32561, 1, 1, 0.3),
        (100, 100, 1, 1000.0),
        (1, 1, 1, 10.0),
        (2, 1, 1, 0.05),
        (10**6, 10, 10**6, 3),
    ],
)
def test_the_edges_settle_and_stay_between_the_bounds(units: int, batch: int, rounds: int, noise: float) -> None:
    event = wor(units, batch, rounds, noise)
    above, below = PLD.epsilon(event, DELTA).epsilon, LOWER.epsilon(event, DELTA).epsilon
    assert 0 <= below <= above * (1 + 1e-9)
    assert math.isfinite(above)
    if rounds == 1:
        assert above <= below * 1.03 + 1e-6


def test_a_sampling_rate_below_delta_needs_no_noise_to_speak_of() -> None:
    assert PLD.epsilon(wor(10**6, 1, 1, 0.5), DELTA).epsilon == 0.0


@pytest.mark.parametrize(
    ("name", "event", "epsilon"),
    [
        ("pld", wor(A9A, 1, 1), 0.2),
        ("pld", wor(50, 50, 1), 0.2),
        ("pld", wor(A9A, 100, 651), 1e-3),
        ("pld", wor(A9A, 100, 10_000), 0.2),
        ("rdp", wor(50, 50, 1), 0.2),
        ("rdp", wor(A9A, 100, 10_000), 0.2),
    ],
)
def test_calibration_is_within_the_target_and_close_to_it(name: str, event: Event, epsilon: float) -> None:
    chosen = accountant(name)
    noise, reading = smallest_noise(chosen, event, epsilon, DELTA)
    assert reading == chosen.epsilon(event.with_noise(noise), DELTA)
    assert reading.epsilon <= epsilon
    if noise > 0.05:
        assert chosen.epsilon(event.with_noise(noise * (1 - 1e-3)), DELTA).epsilon > epsilon


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_the_largest_number_of_rounds_is_exact(name: str) -> None:
    chosen = accountant(name)
    count, reading = largest_count(chosen, wor(1000, 20, 1, 2.0), 1.0, DELTA)
    assert reading.epsilon <= 1.0 < chosen.epsilon(wor(1000, 20, count + 1, 2.0), DELTA).epsilon


def test_overflow_of_the_public_cap_is_charged_to_delta() -> None:
    roomy, tight = poisson(1000, 50, 100, 1.0), poisson(1000, 50, 100, 1.0, cap=95)
    overflow = tight.overflow_probability
    assert 1e-9 < overflow < DELTA
    for chosen in (PLD, RDP):
        free, charged = chosen.epsilon(roomy, DELTA).epsilon, chosen.epsilon(tight, DELTA).epsilon
        assert free < charged
        assert chosen.delta(roomy, charged) + (1 + math.exp(charged)) * overflow <= DELTA * (1 + 1e-3)
        assert chosen.delta(tight, charged) <= DELTA * (1 + 1e-3)
    assert LOWER.epsilon(tight, DELTA).epsilon <= PLD.epsilon(roomy, DELTA).epsilon
    assert PLD.epsilon(poisson(1000, 50, 100, 1.0, cap=60), DELTA).epsilon == math.inf


def test_unequal_parties_stand_at_their_own_rates_and_the_worst_is_reported(mechanism: Mechanism) -> None:
    party, reading = worst_party(PLD, mechanism, DELTA)
    assert party == "south"
    assert reading.epsilon == PLD.epsilon(mechanism.event("south"), DELTA).epsilon
    assert reading.epsilon > PLD.epsilon(mechanism.event("north"), DELTA).epsilon


def test_both_accounts_are_tracked_per_round_and_rdp_as_a_curve() -> None:
    event = wor(1000, 20, 60, 2.0)
    for chosen in (PLD, RDP):
        readings = trajectory(chosen, event, DELTA, [1, 20, 40, 60])
        assert [r.epsilon for r in readings] == sorted(r.epsilon for r in readings)
        assert readings[-1] == chosen.epsilon(event, DELTA)
    orders, values = RDP.curve(event)
    assert [60 * value for value in RDP.curve(wor(1000, 20, 1, 2.0))[1]] == pytest.approx(list(values))
    assert RDP.renyi(event, 16) == values[orders.index(16)]
    with pytest.raises(InvalidParameterError, match="order"):
        RDP.renyi(event, 16.5)


def test_an_event_without_releases_costs_nothing() -> None:
    empty = wor(100, 10, 5).first(0)
    assert [accountant(name).epsilon(empty, DELTA).epsilon for name in ACCOUNTANTS] == [0, 0, 0, 0]


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf, True])
@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_a_delta_outside_of_0_and_1_is_refused(name: str, delta: float) -> None:
    with pytest.raises(InvalidParameterError, match="delta"):
        accountant(name).epsilon(wor(100, 10, 1), delta)


def test_an_unknown_accountant_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidParameterError, match="pld, rdp, paper, lower"):
        accountant("moments")
