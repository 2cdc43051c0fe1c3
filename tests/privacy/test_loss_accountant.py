"""Privacy loss distributions: their edges settle."""

import math

import pytest

from tests.support.events import DELTA, LOWER, PLD, RDP, poisson, wor


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
