"""The curve of Rényi divergences."""

import pytest

from parley.privacy.accountants import trajectory
from parley.privacy.errors import InvalidParameterError
from tests.support.events import DELTA, PLD, RDP, wor


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
