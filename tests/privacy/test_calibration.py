"""Noise and rounds for a target."""

import pytest

from parley.privacy.accountants import accountant
from parley.privacy.calibration import largest_count, smallest_noise
from parley.privacy.event import Event
from parley.privacy.paper_accountant import PaperAccountant
from tests.support.events import A9A, DELTA, LOWER, PLD, RDP, poisson, wor

# ε, batch, rounds; then σ' by Lemma 3.7 with its conditions ignored, RDP, PLD, the lower bound, Poisson.
SETTINGS = [
    (0.2, 50, 1302, 3.53, 2.17, 1.32, 1.17, 0.91),
    (0.2, 100, 651, 5.00, 2.97, 1.69, 1.51, 1.28),
    (0.2, 200, 326, 7.07, 4.16, 2.22, 2.02, 1.81),
    (0.5, 50, 1628, 1.59, 1.32, 0.88, 0.83, 0.48),
    (0.5, 100, 814, 2.25, 1.57, 1.05, 0.97, 0.64),
    (0.5, 200, 407, 3.18, 2.10, 1.30, 1.19, 0.88),
]


@pytest.mark.parametrize(
    ("epsilon", "batch", "rounds", "paper", "rdp", "pld", "lower", "poisson_"),
    [pytest.param(*each, marks=() if each[1] == 200 else pytest.mark.slow) for each in SETTINGS],
)
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
