"""A ledger that was put back to an old state: it charges nothing until somebody has said what was charged since."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from parley.privacy.errors import BudgetExceededError, InvalidParameterError, LedgerCorruptError, LedgerRefusedError
from parley.privacy.filters import Cost
from parley.privacy.ledger import Ledger
from parley.privacy.put_back import Accounted
from tests.support.ledgers import BASIC, BY_RDP, CAP, accepted, new, rows

DEAR = replace(BASIC, cost=Cost(5 * CAP.epsilon, CAP.delta / 4))
SALT = "ab" * 16


def put_back(path: Path, made: int | None = 1_700_000_000) -> Ledger:
    ledger = new(path)
    ledger.put_back(made, SALT)
    return ledger


def test_nothing_is_charged_before_the_account_and_everything_in_it_is(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("known", "ward", BASIC)
    ledger.put_back(1_700_000_000, SALT)
    assert (ledger.waits_for_account, ledger.made) == (True, 1_700_000_000)
    with pytest.raises(LedgerRefusedError, match="restore --account"):
        ledger.reserve("a", "ward", BASIC)
    ledger.account([Accounted("lost", "ward", BASIC)], {"aa" * 32: 3}, {"north": "bb" * 32})
    again = Ledger.open(tmp_path / "l")
    assert not again.waits_for_account
    assert again.accounted == {"aa" * 32: 3}
    assert again.runs["lost"].accounted
    spent = again.populations["ward"].spent.epsilon
    assert spent == pytest.approx(2 * BASIC.cost.epsilon)
    again.reserve("a", "ward", BASIC)


def test_no_cap_stands_against_an_account_and_nothing_fits_beside_it(tmp_path: Path) -> None:
    ledger = put_back(tmp_path / "l")
    ledger.account([Accounted("lost", "ward", DEAR)], {}, {})
    with pytest.raises(BudgetExceededError):
        ledger.reserve("a", "ward", BASIC)
    assert Ledger.open(tmp_path / "l").populations["ward"].spent.epsilon == DEAR.cost.epsilon


@pytest.mark.parametrize("rule", [BASIC, BY_RDP])
def test_a_cap_that_is_given_up_is_spent_under_either_rule_for_good(tmp_path: Path, rule: object) -> None:
    from parley.privacy.filters import Policy

    policy = Policy() if rule is BASIC else Policy("rdp", 16.0)
    ledger = Ledger.create(tmp_path / "l", policy)
    ledger.register("ward", BASIC.unit, CAP)
    ledger.put_back(None)
    with pytest.raises(InvalidParameterError, match="answers for it"):
        ledger.account([], {}, {}, ["ward"])
    ledger.account([], {}, {}, ["ward"], "Dr. Ada Osei")
    with pytest.raises(BudgetExceededError):
        ledger.reserve("a", "ward", rule)  # type: ignore[arg-type]
    ledger.put_back(None)
    ledger.account([], {}, {})
    with pytest.raises(BudgetExceededError):
        ledger.reserve("a", "ward", rule)  # type: ignore[arg-type]


def test_of_an_account_nothing_is_given_back_by_any_end(tmp_path: Path) -> None:
    from parley.privacy.ledger import EndProof

    ledger = put_back(tmp_path / "l")
    ledger.account([Accounted("lost", "ward", BASIC, "aa" * 32)], {}, {})
    with pytest.raises(LedgerRefusedError, match="has been accounted for"):
        ledger.settle(EndProof("lost", 0, "signed-ends", b"both"), accepted)
    with pytest.raises(LedgerRefusedError, match="has been accounted for"):
        ledger.record("lost", 0, "bb" * 32)
    with ledger._chain.writing():
        ledger._chain.append("settle", {"run": "lost", "releases": 0, "proof": "x", "evidence": "cc" * 32})
    again = Ledger.open(tmp_path / "l")
    assert again.populations["ward"].spent == BASIC.cost
    assert again.runs["lost"].manifest == "aa" * 32


def test_only_a_ledger_that_waits_takes_an_account_and_none_twice(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    with pytest.raises(LedgerRefusedError, match="waits for no account"):
        ledger.account([], {}, {})
    ledger.reserve("a", "ward", BASIC)
    ledger.put_back(None)
    for runs in (["a"], ["b", "b"]):
        with pytest.raises(LedgerRefusedError, match="was charged here"):
            ledger.account([Accounted(run, "ward", BASIC) for run in runs], {}, {})
    assert Ledger.open(tmp_path / "l").waits_for_account


def test_with_a_fresh_salt_rows_are_new_and_their_population_keeps_its_budget(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    before = ledger.identity(rows(1, 50))
    ledger.extend("ward", before)
    mark = ledger.mark
    (tmp_path / "l.salt").unlink()  # as in a backup
    ledger.put_back(None, SALT)
    again = Ledger.open(tmp_path / "l")
    after = again.identity(rows(1, 50))
    assert again.mark != mark
    assert after.digest != before.digest
    assert after.overlap(before) == 0
    assert SALT not in json.dumps([entry.body for entry in again._chain.entries()])
    again.extend("ward", after)
    with pytest.raises(LedgerRefusedError, match="would be a fresh one"):
        again.require_own("other")


def test_entries_that_this_program_never_writes_are_refused(tmp_path: Path) -> None:
    ledger = put_back(tmp_path / "l")
    with ledger._chain.writing():
        body = {"run": "a", "population": "ward", "charge": BASIC.as_json(), "content": None}
        ledger._chain.append("reserve", body)
    with pytest.raises(LedgerCorruptError, match="waits for an account"):
        Ledger.open(tmp_path / "l")
