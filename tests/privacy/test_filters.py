"""What a filter gives back, and which charges it takes."""

from pathlib import Path

import pytest

from parley.privacy.accountants import accountant
from parley.privacy.errors import BudgetExceededError, LedgerRefusedError
from parley.privacy.event import Event, NeighbouringRelation, SampledGaussian
from parley.privacy.filters import Charge, Cost, Policy, charge_of
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import EndProof, Ledger
from parley.privacy.mechanism import ROW, Mechanism
from parley.privacy.sampling import Poisson
from tests.support.ledgers import BASIC, BY_RDP, EVENT, accepted, new


def test_only_a_proved_end_gives_back_and_the_basic_filter_gives_back_whole_runs_only(tmp_path: Path) -> None:
    def refused(proof: EndProof) -> None:
        raise LedgerRefusedError("the signature is not the aggregator's: ask it again")

    ledger = new(tmp_path / "l")
    ledger.reserve("unused", "ward", BASIC)
    ledger.reserve("used", "ward", BASIC)
    with pytest.raises(LedgerRefusedError, match="signature"):
        ledger.settle(EndProof("unused", 0, "counters", b"x"), refused)
    assert ledger.populations["ward"].spent.epsilon == 0.6
    ledger.settle(EndProof("unused", 0, "counters", b"x"), accepted)
    assert ledger.populations["ward"].spent.epsilon == 0.3
    ledger.record("used", 4, "a")
    with pytest.raises(LedgerRefusedError, match=r"round 4 .* on record"):
        ledger.settle(EndProof("used", 4, "counters", b"x"), accepted)
    ledger.settle(EndProof("used", 5, "counters", b"x"), accepted)
    assert ledger.populations["ward"].spent.epsilon == 0.3
    with pytest.raises(LedgerRefusedError, match="ended"):
        ledger.record("used", 5, "a")
    with pytest.raises(LedgerRefusedError, match="ended"):
        ledger.settle(EndProof("used", 5, "counters", b"x"), accepted)
    with pytest.raises(LedgerRefusedError, match="ended"):
        ledger.reserve("used", "ward", BASIC)


def test_the_rdp_filter_gives_back_the_rounds_that_were_not_released(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l", Policy("rdp", 16))
    ledger.reserve("run", "ward", BY_RDP)
    ledger.settle(EndProof("run", 5, "counters", b"x"), accepted)
    assert ledger.populations["ward"].spent.rdp == pytest.approx(0.025)
    # 16-RDP of R gives ε = R + log(15/16) − log(16·δ)/15 (Canonne, Kamath and Steinke 2020), here at δ = 1e-5.
    fitting = int((1.0 - 0.5180 - 0.025) / 0.105)
    for index in range(fitting):
        ledger.reserve(f"{index}", "ward", BY_RDP)
    with pytest.raises(BudgetExceededError, match=r"Renyi divergence .* would fit"):
        ledger.reserve("one more", "ward", BY_RDP)


def test_charges_computed_from_a_mechanism_fit_the_filter_they_were_made_for(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    pld = accountant("pld")
    basic = charge_of(mechanism, "north", 10, 1e-6, pld, EXACT, Policy())
    assert basic.cost.epsilon == pld.epsilon(mechanism.event("north"), 1e-6).epsilon
    renyi = charge_of(mechanism, "north", 10, 1e-6, pld, EXACT, Policy("rdp", 16))
    assert renyi.after(7).rdp == pytest.approx(renyi.cost.rdp / 3)
    assert renyi.after(0) == Cost()
    with pytest.raises(LedgerRefusedError, match="adds up by basic"):
        new(tmp_path / "a").reserve("run", "ward", renyi)
    with pytest.raises(LedgerRefusedError, match="adds up by rdp"):
        new(tmp_path / "b", Policy("rdp", 16)).reserve("run", "ward", basic)
    with pytest.raises(LedgerRefusedError, match="adds up by rdp"):
        new(tmp_path / "c", Policy("rdp", 8)).reserve("run", "ward", renyi)


def test_budgets_are_kept_under_replace_one_only(tmp_path: Path) -> None:
    event = Event((SampledGaussian(Poisson(9, 3, 9), 4.0, 1),), NeighbouringRelation.ADD_OR_REMOVE)
    with pytest.raises(LedgerRefusedError, match="replace-one"):
        new(tmp_path / "l").reserve("run", "ward", Charge("m", event, ROW, EXACT, "pld", BASIC.cost))


def test_the_filter_is_fixed_for_life(tmp_path: Path) -> None:
    new(tmp_path / "l").close()
    with pytest.raises(LedgerRefusedError, match="exists already"):
        Ledger.create(tmp_path / "l", Policy("rdp", 16))
    assert Ledger.open(tmp_path / "l").policy == Policy()


@pytest.mark.parametrize(
    ("policy", "charge"),
    [
        (Policy(), Charge("m", EVENT, ROW, EXACT, "pld", Cost())),
        (Policy(), Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=0.1))),
        (Policy("rdp", 16), Charge("m", EVENT, ROW, EXACT, "rdp at order 16", Cost(rdp=0.01), ((21, 0.005),))),
        (Policy("rdp", 16), Charge("m", EVENT, ROW, EXACT, "rdp at order 16", Cost(rdp=0.05), ((10, 0.005),))),
        (Policy("rdp", 16), Charge("m", EVENT, ROW, EXACT, "rdp at order 16", Cost(), ((21, 0.0),))),
    ],
)
def test_a_charge_that_does_not_follow_from_its_event_is_refused(
    tmp_path: Path, policy: Policy, charge: Charge
) -> None:
    with pytest.raises(LedgerRefusedError, match="does not follow"):
        new(tmp_path / "l", policy).reserve("run", "ward", charge)
