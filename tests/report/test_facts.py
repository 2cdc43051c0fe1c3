"""What a ledger's runs and an admission look like in a report."""

from pathlib import Path

from parley.federation.admission import AdmissionRecord
from parley.report.facts import Dates, admission_of, budgets
from tests.support.documents import manifest
from tests.support.ledgers import accepted, new


def test_an_empty_ledger_has_a_population_with_its_cap_and_no_run(tmp_path: Path) -> None:
    ledger = new(tmp_path / "ledger.sqlite")
    (found,) = budgets(ledger)
    assert found["runs"] == []
    assert found["epsilon_spent"] == 0
    assert found["epsilon_cap"] == found["epsilon_left"] > 0
    assert "identity" not in str(found)
    ledger.close()
    assert accepted is not None
    assert Dates() == Dates("", "")


def test_an_admission_is_of_this_very_manifest(tmp_path: Path) -> None:
    path, made = tmp_path / "admissions.sqlite", manifest()
    assert admission_of(path, made) == (None, False)
    record = AdmissionRecord(path)
    record.put(made, "hand", "Dr. Ada Osei", ("a limit",))
    found, withdrawn = admission_of(path, made)
    assert found is not None
    assert (found.approved_by, found.overridden, withdrawn) == ("Dr. Ada Osei", ("a limit",), False)
    record.withdraw(made.digest)
    assert admission_of(path, made)[1]
    assert admission_of(path, manifest(run="heart-2")) == (None, False)
    record.close()
