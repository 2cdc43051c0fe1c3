"""`parley doctor`: what would stop a node is found before a run does, and named with its remedy."""

import datetime as dt
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from parley.attacks.documents import write_party
from parley.cli.commands.doctor import examine
from parley.federation.admission import AdmissionRecord
from parley.federation.names import NodeName, Role
from parley.node import doctor, trust
from parley.node.authority import ThrowAwayAuthority, Validity
from parley.node.credentials import NodeFolder
from parley.node.doctor import FAILED, OK, UNKNOWN, WARNING, Finding, healthy
from parley.node.trail import Trail
from parley.node.transport import server_credentials
from parley.party.record_check import seal_node
from parley.privacy.filters import Cap
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import Unit
from tests.support.command import answer, parley
from tests.support.documents import COORDINATOR_POLICY, PARTY_POLICY, SCHEMA, manifest

AUTHORITY = ThrowAwayAuthority("cardio", dt.timedelta(days=90))


def node(
    folder: Path, role: Role, name: str, authority: ThrowAwayAuthority = AUTHORITY, validity: Validity | None = None
) -> Path:
    folder.mkdir(parents=True, mode=0o700)
    authority.install(folder / "identity", NodeName("cardio", role, name), validity)
    return folder


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """A coordinator and two aggregators that do nothing but shake hands."""
    found, servers = {}, []
    for role, name in ((Role.coordinator, "lead"), (Role.aggregator, "north"), (Role.aggregator, "south")):
        home = node(tmp_path_factory.mktemp("peers") / name, role, name)
        server = grpc.server(ThreadPoolExecutor(1))
        found[name] = server.add_secure_port("127.0.0.1:0", server_credentials(NodeFolder(home / "identity")))
        server.start()
        servers.append(server)
    yield found
    for server in servers:
        server.stop(0)


@pytest.fixture
def party(tmp_path: Path, ports: dict[str, int]) -> Path:
    home = node(tmp_path / "hospital-c", Role.party, "hospital-c")
    (home / "policy.toml").write_text(PARTY_POLICY)
    (home / "records.csv").write_text(
        "age,pulse,sick\n" + "".join(f"{20 + n % 70},{60 + n % 50},{n % 2}\n" for n in range(100))
    )
    write_party(home, {name: ports[name] for name in ("north", "south")}, ports["lead"])
    (home / "schema.toml").write_text(SCHEMA.replace("300", "100"))
    assert seal_node(home).fits
    return home


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


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
    assert seal_node(party).problems == ["row 2, column age: 'old' is not a number"]
    assert look()["seal"].problem.startswith("the records were not sealed yet")


def test_admitted_manifests_are_looked_at_by_themselves(party: Path) -> None:
    record = AdmissionRecord(party / "state/admissions.sqlite")
    record.put(manifest(), "hand", "Dr. Osei")
    stranger = manifest(run="heart-2", **{"parties.2.name": "hospital-d"})
    record.put(stranger, "hand", "Dr. Osei")
    record.close()
    found = by_check(examine(party))
    assert found["run heart-1: data"].state == OK
    assert "does not list parley://cardio/party/hospital-c" in found["run heart-2"].problem


def test_peers_that_are_absent_exchanged_or_strange_are_told_apart(party: Path, ports: dict[str, int]) -> None:
    toml = party / "node.toml"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        change(
            toml,
            f'coordinator = "lead@127.0.0.1:{ports["lead"]}"',
            f'coordinator = "lead@127.0.0.1:{unused.getsockname()[1]}"',
        )
        change(toml, f'north = "127.0.0.1:{ports["north"]}"', f'north = "127.0.0.1:{ports["south"]}"')
        found = by_check(examine(party))
    assert "refused" in found["coordinator lead"].problem
    assert found["aggregator north"].problem.startswith(
        f"127.0.0.1:{ports['south']} does not have the key that is pinned for parley://cardio/aggregator/north"
    )
    assert found["aggregator south"].state == OK
    assert not healthy(list(found.values()))


def test_a_node_of_another_authority_is_not_accepted(party: Path, tmp_path: Path) -> None:
    stranger = node(tmp_path / "stranger", Role.party, "hospital-c", ThrowAwayAuthority("cardio"))
    (stranger / "node.toml").write_text((party / "node.toml").read_text())
    found = by_check(examine(stranger))
    assert found["coordinator lead"].fix.endswith("`parley pin add parley://cardio/coordinator/lead PIN`")
    lead = NodeName("cardio", Role.coordinator, "lead")
    trust.add(NodeFolder(stranger / "identity"), lead, AUTHORITY.issue_as(lead).pin)
    assert "does not accept this node's key" in by_check(examine(stranger))["coordinator lead"].problem
    twin = ThrowAwayAuthority("cardio").issue_as(lead).pin
    trust.add(NodeFolder(stranger / "identity"), lead, twin, replacing=True)
    assert "does not have the key that is pinned for" in by_check(examine(stranger))["coordinator lead"].problem
    own = NodeFolder(party / "identity").current
    (NodeFolder(stranger / "identity").current / "authority.crt").write_bytes((own / "authority.crt").read_bytes())
    assert by_check(examine(stranger))["certificate"].state == FAILED


def test_certificates_that_expire_soon_or_long_ago(party: Path, tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    soon = node(tmp_path / "soon", Role.party, "hospital-c", validity=Validity(now, now + dt.timedelta(days=5)))
    over = Validity(now - dt.timedelta(days=9), now - dt.timedelta(days=1))
    late = node(tmp_path / "late", Role.party, "hospital-c", validity=over)
    for home in (soon, late):
        (home / "node.toml").write_text((party / "node.toml").read_text())
    assert by_check(examine(soon))["certificate"].state == WARNING
    found = by_check(examine(late))
    assert (found["certificate"].state, "expired on" in found["certificate"].problem) == (FAILED, True)
    assert "coordinator lead" not in found  # without an identity there is nothing to dial with


def test_a_key_that_others_may_read_and_a_state_that_others_may_enter(party: Path) -> None:
    key = NodeFolder(party / "identity").current / "node.key"
    key.chmod(0o644)
    (party / "state").chmod(0o755)
    (party / "state").chmod(0o755)
    found = by_check(examine(party))
    assert (found["certificate"].state, "mode 644" in found["certificate"].problem) == (FAILED, True)
    assert (found["state"].state, found["state"].fix.startswith("chmod 700")) == (FAILED, True)


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


def test_aggregators_know_their_place(tmp_path: Path, ports: dict[str, int]) -> None:
    north = node(tmp_path / "north", Role.aggregator, "north")
    (north / "node.toml").write_text(
        'role = "aggregator"\n[listen]\nshare = "127.0.0.1:0"\ncontrol = "127.0.0.1:0"\n'
        f'[peer]\nname = "south"\naddress = "127.0.0.1:{ports["south"]}"\n'
    )
    found = by_check(examine(north, [manifest()]))
    assert (found["aggregator south"].state, found["run heart-1: vocabulary"].state) == (OK, OK)
    assert "run heart-1: noise" not in found
    fine = by_check(examine(north, [manifest(**{"noise.precision": "high"})]))["run heart-1: noise"]
    assert fine.state == FAILED
    assert "asks for the noise strips/high, and this server offers strips/standard" in fine.problem
    change(north / "node.toml", f'address = "127.0.0.1:{ports["south"]}"', "")
    change(north / "node.toml", "[peer]", 'peer = "127.0.0.1:0"\n[peer]')
    found = by_check(examine(north, [manifest()]))
    assert found["aggregator south"].state == UNKNOWN
    assert "in the order north, south, and this node is dialled" in found["run heart-1"].problem


@pytest.mark.parametrize(("error", "state"), [(None, UNKNOWN), (0.02, OK), (60.0, FAILED)])
def test_the_clock_is_judged_by_what_the_kernel_says(
    monkeypatch: pytest.MonkeyPatch, error: float | None, state: str
) -> None:
    monkeypatch.setattr(doctor, "clock_error_seconds", lambda: error)
    assert doctor._clock().state == state
