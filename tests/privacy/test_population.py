"""Whose data these are: found again by content, and never as somebody else."""

from pathlib import Path

import pytest

from parley.privacy.errors import InvalidParameterError, LedgerRefusedError
from parley.privacy.filters import Charge, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW, Unit
from tests.support.ledgers import BASIC, CAP, EVENT, new, rows


def test_rows_are_refused_where_patients_are_kept_and_patients_are_fine_where_rows_are(tmp_path: Path) -> None:
    by_patient = Charge("m", EVENT, Unit("patient"), EXACT, "pld", BASIC.cost)
    patients = new(tmp_path / "patients", unit=Unit("patient"))
    with pytest.raises(LedgerRefusedError, match="kept by patient and the run protects single rows"):
        patients.reserve("run", "ward", BASIC)
    with pytest.raises(LedgerRefusedError, match="column doctor"):
        patients.reserve("run", "ward", Charge("m", EVENT, Unit("doctor"), EXACT, "pld", BASIC.cost))
    patients.reserve("run", "ward", by_patient)
    new(tmp_path / "rows").reserve("run", "ward", by_patient)


def test_a_population_is_found_again_by_its_content_renamed_reordered_or_slightly_changed(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    assert ledger.find(ledger.identity(reversed(rows(1000)))) == "ward"
    assert ledger.find(ledger.identity(rows(1000) + rows(3))) == "ward"
    assert ledger.find(ledger.identity(rows(1000, start=10))) == "ward"
    assert ledger.find(ledger.identity(rows(400))) == "ward"
    assert ledger.find(ledger.identity(rows(5000))) == "ward"
    assert ledger.find(ledger.identity(rows(1000, start=5000))) is None
    large = Ledger.create(tmp_path / "large", Policy())
    large.register("city", ROW, CAP, large.identity(rows(60_000)))
    assert large.find(large.identity(rows(300, start=1000))) == "city"
    assert large.find(large.identity(rows(70_000, start=3000))) == "city"
    assert large.find(large.identity(rows(60_000, start=58_000))) is None
    with pytest.raises(LedgerRefusedError, match="those of population ward"):
        ledger.register("renamed", ROW, CAP, ledger.identity(rows(1000, start=10)))
    ledger.declare_apart("others", "Ada Osei")
    ledger.register("others", ROW, CAP, ledger.identity(rows(1000, start=5000)))
    with pytest.raises(LedgerRefusedError, match="not of ward"):
        ledger.extend("ward", ledger.identity(rows(1000, start=5001)))
    ledger.extend("ward", ledger.identity(rows(100, start=20_000)))
    assert Ledger.open(tmp_path / "l").find(ledger.identity(rows(90, start=20_000))) == "ward"


def test_all_data_are_one_population_until_somebody_answers_for_it_that_they_are_not(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    others = ledger.identity(rows(1000, start=5000))
    with pytest.raises(LedgerRefusedError, match="keeps the budget of ward, and others would be a fresh one"):
        ledger.register("others", ROW, CAP, others)
    with pytest.raises(InvalidParameterError, match="whoever answers"):
        ledger.declare_apart("others", " ")
    ledger.declare_apart("others", "Ada Osei")
    with pytest.raises(LedgerRefusedError, match="those of population ward"):  # no declaration makes these others
        ledger.register("others", ROW, CAP, ledger.identity(rows(1000, start=10)))
    ledger.close()
    ledger = Ledger.open(tmp_path / "l")
    ledger.register("others", ROW, CAP, others)
    with pytest.raises(LedgerRefusedError, match="nothing to declare"):
        ledger.declare_apart("others", "Ada Osei")
    assert ledger.declared_apart == {"others"}
    ledger.verify()


def test_of_two_names_that_are_about_to_be_charged_each_is_declared_apart_unless_it_has_its_budget(
    tmp_path: Path,
) -> None:
    empty = Ledger.create(tmp_path / "empty", Policy())
    both = ("patients", "staff")
    empty.require_own("patients", None, ("patients",))
    for name, other in (both, both[::-1]):
        with pytest.raises(LedgerRefusedError, match=f"keeps the budget of {other}, and {name} would be a fresh one"):
            empty.require_own(name, None, both)
    for name in both:
        empty.declare_apart(name, "Ada Osei")
        empty.require_own(name, None, both)
    kept = new(tmp_path / "l")  # ward has its budget
    kept.require_own("ward", None, ("ward", "staff"))
    with pytest.raises(LedgerRefusedError, match="keeps the budget of ward"):
        kept.require_own("staff", None, ("ward", "staff"))
    kept.declare_apart("staff", "Ada Osei")
    kept.require_own("staff", None, ("ward", "staff"))
