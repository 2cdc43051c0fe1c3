"""A limit holds, and a refusal names what is exhausted."""

from pathlib import Path

import pytest

from parley.privacy.errors import BudgetExceededError
from parley.privacy.filters import Cap, Charge, Cost, Limit, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.support.ledgers import BY_RDP, EVENT, rows
from tests.support.limits import CAP, HALF, TOTAL


def test_what_a_run_claims_counts_where_it_is_more_than_its_charge(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Policy())
    ledger.register("ward", ROW, CAP, ledger.identity(rows(50)))
    with pytest.raises(BudgetExceededError):
        ledger.reserve("run", "ward", HALF, None, Limit(TOTAL, claimed=2.1))
    ledger.reserve("run", "ward", HALF, None, Limit(TOTAL, claimed=2.0))


def test_a_refusal_names_what_is_exhausted(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Policy())
    ledger.register("ward", ROW, Cap(20.0, 3e-6), ledger.identity(rows(50)))
    for number in range(3):
        ledger.reserve(f"run {number}", "ward", HALF)
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.reserve("one more", "ward", HALF)
    assert refusal.value.exhausted == ("delta",)
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.reserve("large", "ward", Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=30.0, delta=1e-6)))
    assert refusal.value.exhausted == ("epsilon", "delta")


def test_a_limit_holds_under_the_rdp_filter_too(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Policy("rdp", 16))
    ledger.register("ward", ROW, Cap(4.0, 1e-5), ledger.identity(rows(50)))
    with pytest.raises(BudgetExceededError, match="policy"):
        ledger.reserve("run", "ward", BY_RDP, None, Limit(0.5))
    ledger.reserve("run", "ward", BY_RDP, None, Limit(2.0))
