"""Nodes whose folders are wiped and made again from old backups, among real processes: no budget comes back."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.aggregator.opening_store import OpeningStore
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RunRow, RunStore, State
from parley.demo.local import LocalFederation, NodeProcess, sealed
from parley.federation.manifest import Manifest
from parley.party.outbox import Outbox
from parley.privacy.ledger import Ledger
from tests.support.backups import Operator
from tests.support.command import answer, parley
from tests.support.until import until

pytestmark = pytest.mark.slow


def renamed(manifest: Manifest, run: str) -> Manifest:
    """The same, calibrated as it is."""
    return Manifest.from_json(manifest.as_json() | {"run": run})


@pytest.fixture
def federation(tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]) -> Iterator[LocalFederation]:
    with LocalFederation(tmp_path / "nodes", manifest, data, capacity=4 * manifest.joint_samples) as made:
        made.start()
        yield made


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path / "operator")


def finished(federation: LocalFederation, manifest: Manifest) -> RunRow:
    coordinator = Coordinator(federation.coordinator.folder)
    *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
    assert row.state is State.finished, (row.outcome, [node.tail() for node in federation.nodes.values()])
    return row


def book(node: NodeProcess) -> Ledger:
    return Ledger.open(node.folder / "state" / "ledger.sqlite")


def wiped(node: NodeProcess) -> None:
    node.stop()
    shutil.rmtree(node.folder)


def started(node: NodeProcess) -> None:
    node.start()
    node.wait_ready()


def under_way(federation: LocalFederation, manifest: Manifest, rounds: int) -> bytes:
    """A run that waits for its last party, which has died after so many rounds."""
    last = federation.parties[-1]
    last.stop()
    last.start({"PARLEY_CRASH_AT": f"party.recorded:{rounds}"})
    last.wait_ready()
    digest = Coordinator(federation.coordinator.folder).submit(manifest)
    until(lambda: not last.alive)
    return digest


def test_a_party_whose_folder_is_wiped_charges_what_the_servers_signed_and_not_less(
    federation: LocalFederation, manifest: Manifest, operator: Operator, tmp_path: Path
) -> None:
    party = federation.parties[0]
    monthly = operator.backup(party.folder, "monthly")  # the node runs
    finished(federation, manifest)
    until(lambda: all(book(each).runs["small"].ended for each in federation.parties))
    spent = book(party).populations["records"].spent
    wiped(party)
    moved = tmp_path / "elsewhere" / "hospital"  # another machine's disk: moving a node is the same road
    moved.parent.mkdir()
    operator.restore(monthly, moved)
    party.folder = moved
    sealed(moved)
    started(party)
    until(lambda: not book(party).waits_for_account)
    restored = book(party)
    assert restored.populations["records"].spent == spent
    assert restored.runs["small"].accounted
    finished(federation, renamed(manifest, "second"))
    until(lambda: book(party).runs["second"].ended)
    assert book(party).populations["records"].spent.epsilon == pytest.approx(2 * spent.epsilon)
    refused = parley("restore", str(monthly), str(moved), "--key", str(operator.key), "--passphrase-file", str(
        operator.folder / "phrase"))  # fmt: skip
    assert refused.returncode == 2
    assert "is there already" in refused.stderr


def test_one_server_that_is_away_keeps_a_restored_party_out_of_everything(
    federation: LocalFederation, manifest: Manifest, operator: Operator
) -> None:
    party, south = federation.parties[0], federation.aggregators[1]
    monthly = operator.backup(party.folder, "monthly")
    finished(federation, manifest)
    wiped(party)
    south.stop()
    operator.restore(monthly, party.folder)
    sealed(party.folder)
    done = parley("restore", "--account", str(party.folder))
    assert done.returncode == 2
    assert south.name in done.stderr
    started(party)
    until(lambda: "before its servers account for it" in party.tail())
    assert book(party).waits_for_account
    assert not book(party).runs
    started(south)
    until(lambda: not book(party).waits_for_account)
    assert book(party).runs["small"].accounted
    party.stop()
    again = parley("restore", "--account", str(party.folder), "--json")
    assert answer(again) == {"charged": [], "given_up": []}


def test_a_run_in_flight_is_lost_for_a_restored_party_and_stays_charged(
    federation: LocalFederation, manifest: Manifest, operator: Operator
) -> None:
    party = federation.parties[0]
    under_way(federation, manifest, 3)
    taken = operator.backup(party.folder, "in-flight")
    spent = book(party).populations["records"].spent
    wiped(party)
    assert operator.restore(taken, party.folder)["lost"] == ["small"]
    sealed(party.folder)
    started(party)
    until(lambda: not book(party).waits_for_account)
    with closing(Outbox(party.folder / "state" / "outbox.sqlite")) as outbox:
        assert {held.run: held.state for held in outbox.runs()}["small"] == "left"
    assert book(party).populations["records"].spent == spent


def test_a_restored_server_loses_what_was_under_way_and_serves_what_comes_after(
    federation: LocalFederation, manifest: Manifest, operator: Operator
) -> None:
    south = federation.aggregators[1]
    finished(federation, manifest)
    digest = under_way(federation, renamed(manifest, "second"), 3)
    store = south.folder / "state" / "openings.sqlite"
    taken = operator.backup(south.folder, "in-flight")
    wiped(south)
    started(federation.parties[-1])
    lost = operator.restore(taken, south.folder)["lost"]
    assert lost == ["second"]
    started(south)
    until(lambda: _row(federation, digest).state in (State.failed, State.stalled))
    with closing(OpeningStore(store)) as openings:
        assert openings.lost("second")
        assert openings.ended("second") is None
        assert openings.ended("small") == openings.counts("small").mine
    for party in federation.parties:
        run = book(party).runs["second"]
        assert not run.ended
        assert run.cost == run.charge.cost
    finished(federation, renamed(manifest, "third"))
    until(lambda: all(book(each).runs["third"].ended for each in federation.parties))


def _row(federation: LocalFederation, digest: bytes) -> RunRow:
    path = federation.coordinator.folder / "state" / "runs.sqlite"
    with closing(RunStore(path, read_only=True)) as store:
        found = store.get(digest)
    assert found is not None
    return found


def test_a_restored_coordinator_has_its_models_and_begins_nothing_before_an_account(
    federation: LocalFederation, manifest: Manifest, operator: Operator
) -> None:
    lead = federation.coordinator
    finished(federation, manifest)
    digest = under_way(federation, renamed(manifest, "second"), 3)
    taken = operator.backup(lead.folder, "in-flight")
    started(federation.parties[-1])
    *_, (row, _) = Coordinator(lead.folder).follow(digest)
    finished(federation, renamed(manifest, "third"))
    spent = next(iter(book(lead).populations.values())).spent
    wiped(lead)
    assert operator.restore(taken, lead.folder)["lost"] == ["second"]
    assert (lead.folder / "models" / "small.npz").exists()
    started(lead)
    assert _row(federation, digest).state is State.failed
    with closing(RunStore(lead.folder / "state" / "runs.sqlite", read_only=True)) as store:
        assert store.theta(manifest.digest) is not None
    coordinator = Coordinator(lead.folder)
    *_, (row, _) = coordinator.follow(coordinator.submit(renamed(manifest, "early")))
    assert row.state is State.refused
    assert "restore --account" in row.outcome
    refused = parley("restore", "--account", str(lead.folder))
    assert "another process of this coordinator is running" in refused.stderr
    lead.stop()
    done = parley("restore", "--account", str(lead.folder), "--json")
    assert answer(done)["charged"] == ["third"]
    assert next(iter(book(lead).populations.values())).spent.epsilon == pytest.approx(spent.epsilon)
