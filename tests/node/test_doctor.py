"""What would stop any node: its certificate, its key, its peers, its clock."""

import datetime as dt
import socket
from pathlib import Path

import pytest

from parley.cli.commands.doctor import examine
from parley.federation.names import NodeName, Role
from parley.mpc import kernels
from parley.node import doctor, trust
from parley.node.authority import ThrowAwayAuthority, Validity
from parley.node.credentials import NodeFolder
from parley.node.doctor import FAILED, OK, UNKNOWN, WARNING, healthy
from tests.support.documents import manifest
from tests.support.examined import AUTHORITY, by_check, change, node


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
    assert found["certificate"].fix.startswith(f"`chmod 600 {key}`")
    assert (found["state"].state, found["state"].fix.startswith("`chmod 700")) == (FAILED, True)


def test_aggregators_know_their_place(tmp_path: Path, ports: dict[str, int]) -> None:
    north = node(tmp_path / "north", Role.aggregator, "north")
    (north / "node.toml").write_text(
        'role = "aggregator"\n[listen]\nshare = "127.0.0.1:0"\ncontrol = "127.0.0.1:0"\n'
        f'[peer]\nname = "south"\naddress = "127.0.0.1:{ports["south"]}"\n'
    )
    found = by_check(examine(north, [manifest()]))
    assert (found["aggregator south"].state, found["run heart-1: vocabulary"].state) == (OK, OK)
    assert found["machine"].problem.endswith(" kernels")
    assert found["run heart-1: noise"].state == OK
    fine = by_check(examine(north, [manifest(**{"noise.precision": "high"})]))["run heart-1: noise"]
    assert fine.state == FAILED
    assert "asks for the noise strips/high, and this server offers strips/standard" in fine.problem
    change(north / "node.toml", f'address = "127.0.0.1:{ports["south"]}"', "")
    change(north / "node.toml", "[peer]", 'peer = "127.0.0.1:0"\n[peer]')
    found = by_check(examine(north, [manifest()]))
    assert found["aggregator south"].state == UNKNOWN
    assert "in the order north, south, and this node is dialled" in found["run heart-1"].problem


def test_a_machine_that_the_node_cannot_run_on(party: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "processor_features", frozenset)
    assert by_check(examine(party))["machine"].state == OK  # a party needs no kernel
    north = node(tmp_path / "north", Role.aggregator, "north")
    (north / "node.toml").write_text(
        'role = "aggregator"\n[listen]\nshare = "127.0.0.1:0"\ncontrol = "127.0.0.1:0"\npeer = "127.0.0.1:0"\n'
        '[peer]\nname = "south"\n'
    )
    found = by_check(examine(north))["machine"]
    assert (found.state, found.problem.startswith("this machine has no AES instructions")) == (FAILED, True)
    assert found.fix.startswith("run aggregators")
    monkeypatch.setattr("sys.platform", "darwin")
    found = by_check(examine(party))["machine"]
    assert (found.state, found.problem) == (FAILED, "a node runs on Linux only")


@pytest.mark.parametrize(("error", "state"), [(None, UNKNOWN), (0.02, OK), (60.0, FAILED)])
def test_the_clock_is_judged_by_what_the_kernel_says(
    monkeypatch: pytest.MonkeyPatch, error: float | None, state: str
) -> None:
    monkeypatch.setattr(doctor, "clock_error_seconds", lambda: error)
    assert doctor._clock().state == state
