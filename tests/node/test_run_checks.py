"""What the doctor says of a run before the node is asked, and that it says nothing of runs that are over."""

from contextlib import closing
from pathlib import Path

from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.server import OPENINGS_FILE
from parley.cli.commands.doctor import examine
from parley.coordinator.store import RunStore, State
from parley.federation.admission import AdmissionRecord
from parley.federation.names import Role
from parley.node.doctor import FAILED, OK, UNKNOWN, WARNING
from parley.party.outbox import LEFT, SETTLED, WAITING, Outbox
from tests.support.documents import COORDINATOR_POLICY, manifest
from tests.support.examined import by_check, change, node


def test_the_policy_is_tried_before_the_node_is_asked(party: Path) -> None:
    found = by_check(examine(party, [manifest()]))["run heart-1: policy"]
    assert (found.state, found.problem) == (OK, "policy.toml admits it, by what the manifest states")
    change(party / "policy.toml", "minimum_parties = 2", "minimum_parties = 3")
    found = by_check(examine(party, [manifest()]))["run heart-1: policy"]
    assert found.state == FAILED
    assert "asks for at least 3: raise it in the manifest, or lower minimum_parties in the policy" in found.problem
    digest = manifest().digest.hex()
    assert f'`parley party approve {party} RUN.toml --digest {digest} --by "YOUR NAME"`' in found.fix
    assert f"`${{EDITOR:-vi}} {party}/policy.toml`" in found.fix
    found = by_check(examine(party, [manifest(**{"aggregators.1.name": "west"})]))["run heart-1: policy"]
    assert "'west' is not in the policy" in found.problem
    (party / "policy.toml").unlink()
    assert by_check(examine(party, [manifest()]))["run heart-1: policy"].state == WARNING


def test_what_nobody_can_approve_says_so(party: Path) -> None:
    change(party / "policy.toml", "epsilon_total = ", "epsilon_total = 0.01 # ")
    found = by_check(examine(party, [manifest()]))["run heart-1: policy"]
    assert found.state == FAILED
    assert "exceeds the 0.01 that these records may cost in all" in found.problem
    assert found.fix.startswith("nobody can approve it as it is")
    assert "--by" not in found.fix


def test_an_admitted_run_is_not_judged_again(party: Path) -> None:
    with closing(AdmissionRecord(party / "state/admissions.sqlite")) as record:
        record.put(manifest(), "hand", "Dr. Osei")
    change(party / "policy.toml", "minimum_parties = 2", "minimum_parties = 3")
    found = by_check(examine(party))["run heart-1: policy"]
    assert (found.state, found.problem.startswith("admitted by Dr. Osei on 20")) == (OK, True)


def test_a_party_looks_at_runs_that_go_on_or_wait_and_at_none_that_is_over(party: Path) -> None:
    runs = {name: manifest(run=name) for name in ("on", "left", "settled", "waits")}
    with closing(AdmissionRecord(party / "state/admissions.sqlite")) as record:
        for name in ("on", "left", "settled"):
            record.put(runs[name], "hand", "Dr. Osei")
    with closing(Outbox(party / "state/outbox.sqlite")) as outbox:
        for name, state in (("left", LEFT), ("settled", SETTLED), ("waits", WAITING)):
            outbox.note(runs[name].digest, name, runs[name].canonical, state, "")
    looked_at = {check.split(":")[0] for check in by_check(examine(party)) if check.startswith("run ")}
    assert looked_at == {"run on", "run waits"}
    assert "run left: data" in by_check(examine(party, [runs["left"]])), "it was asked for by name"


def test_a_server_looks_at_no_run_that_it_has_ended(tmp_path: Path, ports: dict[str, int]) -> None:
    north = node(tmp_path / "north", Role.aggregator, "north")
    (north / "node.toml").write_text(
        'role = "aggregator"\n[listen]\nshare = "127.0.0.1:0"\ncontrol = "127.0.0.1:0"\n'
        f'[peer]\nname = "south"\naddress = "127.0.0.1:{ports["south"]}"\n'
    )
    (north / "state").mkdir(mode=0o700)
    with closing(AdmissionRecord(north / "state/admissions.sqlite")) as record:
        for name in ("on", "over"):
            record.put(manifest(run=name), "policy", "policy")
    with closing(OpeningStore(north / "state" / OPENINGS_FILE)) as store:
        store.end("over")
    found = by_check(examine(north))
    assert {check.split(":")[0] for check in found if check.startswith("run ")} == {"run on"}


def test_a_coordinator_looks_at_no_run_that_is_over(tmp_path: Path, ports: dict[str, int]) -> None:
    lead = node(tmp_path / "lead", Role.coordinator, "lead")
    (lead / "node.toml").write_text(
        'role = "coordinator"\nlisten = "127.0.0.1:0"\n[aggregators]\n'
        f'north = "127.0.0.1:{ports["north"]}"\nsouth = "127.0.0.1:{ports["south"]}"\n'
    )
    (lead / "policy.toml").write_text(COORDINATOR_POLICY)
    (lead / "state").mkdir(mode=0o700)
    made = manifest(run="over")
    with closing(AdmissionRecord(lead / "state/admissions.sqlite")) as record:
        record.put(made, "policy", "policy")
    with closing(RunStore(lead / "state/runs.sqlite")) as store:
        store.submit(made.digest, made.run, made.canonical)
        assert "run over: vocabulary" in by_check(examine(lead))
        store.set_state(made.digest, State.failed, "no room")
    found = by_check(examine(lead))["manifests"]
    assert (found.state, found.problem) == (UNKNOWN, "1 run is over, no other is here")
