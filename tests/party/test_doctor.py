"""What would stop a party: its records, their seal, its books."""

from pathlib import Path
from typing import Any

import pytest

from parley.cli.commands.doctor import examine
from parley.compute import strangers
from parley.demo.local import ReservedPort
from parley.federation.extras import pip
from parley.federation.names import NodeName, Role
from parley.node.doctor import FAILED, OK, WARNING, Finding
from parley.node.trail import Trail
from parley.party import doctor
from parley.party.record_check import seal_node
from parley.privacy.filters import Cap
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import Unit
from tests.support.documents import manifest
from tests.support.examined import by_check, change
from tests.support.ray_clusters import credentials


def test_the_seal_the_schema_and_the_count(party: Path) -> None:
    def look(**changes: Any) -> dict[str, Finding]:
        return by_check(examine(party, [manifest(**changes)]))

    assert look()["seal"].state == OK
    found = look(**{"parties.2.sampler": {"kind": "wor", "units": 101, "batch": 5}})["run heart-1: data"]
    assert (found.state, "101 units of hospital-c and it has 100" in found.problem) == (FAILED, True)
    found = look(**{"schema.features.0.high": 91.0})["run heart-1: data"]
    assert (found.state, "schema.features[0]: differs from this party's high" in found.problem) == (FAILED, True)
    change(party / "records.csv", "20,60,0", "200,60,0")
    found = look()["seal"]
    assert (found.state, found.problem.startswith("records.csv was changed")) == (FAILED, True)
    assert seal_node(party).adjusted == {"age": 1}
    assert look()["seal"].state == OK
    change(party / "policy.toml", 'unit_column = ""', 'unit_column = "patient"')
    assert "make them agree" in look()["seal"].fix
    change(party / "records.csv", "21,61,1", "old,61,1")
    assert seal_node(party).problems == ["records.csv, line 3, column age: 'old' is not a number"]
    assert look()["seal"].problem.startswith("the records were not sealed yet")


def test_bounds_that_do_not_suit_the_records_are_said_and_nothing_else_changes(party: Path) -> None:
    found = by_check(examine(party))["bounds"]
    assert (found.state, found.problem) == (OK, "those of schema.toml suit the records")
    change(party / "schema.toml", "high = 90", "high = 9000")
    assert "bounds" not in by_check(examine(party))  # the seal does not hold: no record is read
    seal_node(party)
    found = by_check(examine(party))["bounds"]
    assert (found.state, found.problem.startswith("age: its values fill")) == (WARNING, True)
    assert "write low = 0, high = 120" in found.problem
    written = (party / "state/trail.jsonl").read_text()
    assert "age" not in written
    assert "fill" not in written


def test_books_and_budget(party: Path) -> None:
    ledger = Ledger.open(party / "state/ledger.sqlite")
    ledger.register("patients", Unit(), Cap(4.0, 1e-4))
    ledger.close()
    with Trail.open(party / "state/trail.jsonl", NodeName("cardio", Role.party, "hospital-c")) as trail:
        trail.append("node.ready")
    found = by_check(examine(party))
    assert (found["trail"].state, found["ledger"].state, found["budget"].state) == (OK, OK, OK)
    assert found["budget"].problem == ("patients: epsilon 0 of 4 and delta 0 of 0.0001 spent, 4 and 0.0001 left")
    change(party / "node.toml", "epsilon = 4.0", "epsilon = 8.0")
    change(party / "state/trail.jsonl", "node.ready", "node.rxady")
    found = by_check(examine(party))
    assert found["trail"].state == FAILED
    assert (found["budget"].state, "the ledger's counts" in found["budget"].problem) == (WARNING, True)


def test_where_sums_are_computed(party: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> tuple[str, str]:
        found = by_check(examine(party))["compute"]
        return found.state, f"{found.problem} {found.fix}"

    assert "compute" not in by_check(examine(party))
    with (party / "node.toml").open("a") as file:
        file.write('\n[compute]\nbackend = "ray"\nworkers = 1\n')
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert look() == (FAILED, f"[compute] is for Ray, which is not here `{pip('ray')}`")
    monkeypatch.setattr(doctor, "find_spec", lambda name: name)
    assert look()[0] == OK
    change(party / "node.toml", "workers = 1", "workers = 256")
    assert look()[0] == WARNING
    assert look()[1].startswith("256 workers share ")
    files = credentials(party)
    table = "".join(f'{name} = "{path}"\n' for name, path in files.items())
    nobody = ReservedPort()
    change(party / "node.toml", "workers = 256\n", f'workers = 2\naddress = "127.0.0.1:{nobody}"\n{table}')
    monkeypatch.setattr(strangers, "SECONDS", 0.5)
    assert look()[0] == FAILED
    assert "does not answer over TLS" in look()[1]
    nobody.close()
    files["token"].chmod(0o644)
    assert look()[0] == FAILED
    assert "chmod 600" in look()[1]


def test_code_of_columns_is_looked_at_where_the_model_is_parleys_own(party: Path) -> None:
    extractor = {
        "kind": "torch:nobodys_features:extract", "shape": [1, 1, 2], "columns": 4, "trained_on": "x",
        "declared_by": "y", "digest": f"sha256:{'0' * 64}",
    }  # fmt: skip
    made = manifest(**{"schema.transform": [extractor], "model.dimension": 5})
    found = by_check(examine(party, [made]))["run heart-1: code"]
    assert (found.state, "code that policy.toml does not name" in found.problem) == (FAILED, True)
