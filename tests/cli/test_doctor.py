"""`parley doctor`: what would stop a node is found before a run does, and named with its remedy."""

from pathlib import Path

from parley.cli.commands.doctor import examine
from parley.federation.admission import AdmissionRecord
from parley.node.doctor import OK, UNKNOWN, WARNING
from tests.support.command import answer, parley
from tests.support.documents import COORDINATOR_POLICY, PARTY_POLICY, manifest
from tests.support.examined import by_check


def test_a_healthy_party_passes_every_check(party: Path) -> None:
    found = by_check(examine(party, [manifest()]))
    assert {name for name, each in found.items() if each.state not in (OK, UNKNOWN)} == set()
    assert {"certificate", "key", "coordinator lead", "aggregator north", "aggregator south", "budget"} <= set(found)
    assert found["run heart-1: data"].problem == "its columns and its count of units are those of schema.toml"
    assert found["run heart-1: ring"].problem == "no overflow from answers that follow the protocol (16 bits to spare)"
    assert "answers in" in found["coordinator lead"].problem


def test_the_command_ends_with_json_and_an_exit_code(party: Path) -> None:
    done = parley("doctor", str(party), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert answer(done)["healthy"]
    assert {"check", "state", "problem", "fix"} == set(answer(done)["checks"][0])
    (party / "records.csv").unlink()
    done = parley("doctor", str(party))
    assert done.returncode == 1
    assert "FAILED   data records.csv" in done.stdout
    assert "fix: correct [data] files" in done.stdout
    assert parley("doctor", str(party / "nowhere")).returncode == 1


def test_admitted_manifests_are_looked_at_by_themselves(party: Path) -> None:
    record = AdmissionRecord(party / "state/admissions.sqlite")
    record.put(manifest(), "hand", "Dr. Osei")
    stranger = manifest(run="heart-2", **{"parties.2.name": "hospital-d"})
    record.put(stranger, "hand", "Dr. Osei")
    record.close()
    found = by_check(examine(party))
    assert found["run heart-1: data"].state == OK
    assert "does not list parley://cardio/party/hospital-c" in found["run heart-2"].problem


def test_a_policy_that_is_absent_wrong_or_of_another_role(party: Path) -> None:
    policy = party / "policy.toml"
    policy.write_text(PARTY_POLICY.replace('"lead"', '"other"').replace('south = "South Foundation"', ""))
    problems = [each.problem for each in examine(party) if each.check == "policy" and each.state == WARNING]
    assert problems == ["does not know the coordinator lead", "does not know the aggregator south"]
    policy.write_text(COORDINATOR_POLICY)
    assert by_check(examine(party))["policy"].problem == "is a coordinator's"
    policy.write_text(PARTY_POLICY.replace("epsilon_total", "epsilon_totl"))
    assert "epsilon_total: is missing" in by_check(examine(party))["policy"].problem
    policy.unlink()
    assert by_check(examine(party))["policy"].state == WARNING
