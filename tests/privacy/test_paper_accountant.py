"""The paper's lemma, with its conditions."""

import pytest

from parley.privacy.calibration import smallest_noise
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.paper_accountant import PaperAccountant
from tests.support.events import A9A, DELTA, PLD, poisson, wor


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
