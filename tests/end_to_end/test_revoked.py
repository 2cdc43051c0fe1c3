"""A node is revoked while a run is under way: the list travels from the coordinator, and what stands with it ends."""

import datetime as dt
from pathlib import Path

import pytest

from parley.bench.train_data import RECORDS, schema, write_party
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest, Operator
from parley.node.credentials import NodeFolder
from parley.node.revocation import REVOKED_FILE, Entry
from parley.privacy.ledger import Ledger
from parley.study.manifests import draft
from tests.support.command import parley
from tests.support.until import until

PARTIES, DIMENSION = 3, 40


def manifest_of(run: str, rounds: int) -> Manifest:
    """Two of three parties are enough, and are waited for a few seconds."""
    return draft(
        run=run, federation="bench", model={"kind": "logistic"},
        algorithm={
            "name": "ddp-srm", "gradient_norm": 1.0, "difference_norm": 0.1, "gamma": 0.1, "batch": 150, "step": 0.1,
            "passes": (2 * (rounds - 1) + 1) * 150 / (PARTIES * RECORDS),
        },
        schema=schema(DIMENSION), sizes={f"party-{place + 1}": RECORDS for place in range(PARTIES)}, epsilon=1.0,
        delta=1e-5, aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "Lead Institute"), minimum_parties=2, deadline_seconds=4.0,
    )  # fmt: skip


def made(folder: Path, manifest: Manifest) -> LocalFederation:
    data = {}
    for place, party in enumerate(manifest.parties):
        data[party] = [folder / f"{party}.libsvm"]
        write_party(data[party][0], place, DIMENSION)
    return LocalFederation(folder / "nodes", manifest, data)


def revoke(federation: LocalFederation, node: NodeProcess) -> None:
    """By the coordinator's operator, with the authority's file."""
    identity = NodeFolder(node.folder / "identity").load()
    entry = Entry(identity.parsed.serial_number, identity.pin, dt.datetime.now(dt.UTC), "excluded")
    file = federation.folder / REVOKED_FILE
    file.write_bytes(federation.authority.authority.revoking([entry], 1).data)
    done = parley("node", "revoked", str(file), "--folder", str(federation.coordinator.folder / "identity"))
    assert done.returncode == 0, done.stderr
    assert "list         1, of" in done.stdout


def has_list(node: NodeProcess) -> bool:
    return (node.folder / "identity" / REVOKED_FILE).exists()


@pytest.mark.slow
def test_a_run_goes_on_without_a_revoked_party_whose_charge_stays(tmp_path: Path) -> None:
    manifest = manifest_of("revoked", 400)
    with made(tmp_path, manifest) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        gone, *others = federation.parties

        def opened() -> int:
            row = coordinator.store.get(digest)
            assert row is not None
            return row.round if row.state is State.running else 0

        until(lambda: opened() >= 2)
        revoke(federation, gone)
        until(lambda: all(map(has_list, federation.aggregators)))
        *_, (row, _) = coordinator.follow(digest)
        logs = "\n".join(f"{node.name}: {node.tail()}" for node in federation.nodes.values())
        assert row.state is State.finished, (row.outcome, logs)
        history = coordinator.store.history(digest, 0)
        assert history[0].contributors == sorted(manifest.parties)
        assert history[-1].contributors == sorted(node.name for node in others)
        assert "revoked" in gone.log.read_text()
        until(lambda: all(map(has_list, others)))
        until(lambda: all(_ended(node, manifest) for node in others))
        assert not _ended(gone, manifest)
        said = parley("doctor", str(others[0].folder)).stdout
        assert "list 1, 0 days old, 1 certificates" in said


def _ended(node: NodeProcess, manifest: Manifest) -> bool:
    ledger = Ledger.open(node.folder / "state" / "ledger.sqlite")
    try:
        return ledger.runs[manifest.run].ended
    finally:
        ledger.close()


@pytest.mark.long
def test_a_run_rests_when_a_server_is_revoked_and_its_whole_charge_stays(tmp_path: Path) -> None:
    manifest = manifest_of("revoked", 400)
    with made(tmp_path, manifest) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)

        def opened() -> int:
            row = coordinator.store.get(digest)
            assert row is not None
            return row.round if row.state is State.running else 0

        until(lambda: opened() >= 2)
        north, south = federation.aggregators
        revoke(federation, south)
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.stalled, row.outcome
        assert "the authority has revoked parley://bench/aggregator/south" in row.outcome
        assert row.round < manifest.releases
        assert has_list(north)
        assert not any(_ended(node, manifest) for node in federation.parties)


@pytest.mark.slow
def test_a_revoked_node_of_the_authority_by_its_commands(tmp_path: Path) -> None:
    """From the authority's register to the node that learns that it is revoked itself."""
    ca, node, out = str(tmp_path / "ca"), str(tmp_path / "node"), str(tmp_path / "south.pem")
    file = str(tmp_path / "list.crl")
    unlock = ("--folder", ca)
    assert parley("ca", "init", "cardio", *unlock).returncode == 0
    fingerprint = parley("ca", "show", *unlock).stdout.split("fingerprint")[1].split()[0]
    assert parley("node", "request", "parley://cardio/aggregator/south", "--folder", node).returncode == 0
    request = f"{node}/pending/request.pem"
    asked = parley("ca", "inspect", request).stdout.split("fingerprint")[1].split()[0]
    approve = ("ca", "approve", request, "--fingerprint", asked, "--out", out, *unlock)
    assert parley(*approve).returncode == 0
    assert parley("node", "install", out, "--authority", fingerprint, "--folder", node).returncode == 0
    assert "none" in parley("node", "revoked", "--folder", node).stdout
    assert parley("ca", "revoked", *unlock).returncode == 2
    nobody = parley("ca", "revoke", "party/nobody", "--reason", "left", *unlock)
    assert (nobody.returncode, "no line of issued.jsonl" in nobody.stderr) == (2, True)
    first = parley("ca", "revoke", "aggregator/south", "--reason", "key-compromise", "--out", file, *unlock)
    assert first.returncode == 0, first.stderr
    assert "key-compromise" in first.stdout
    old = Path(file).read_bytes()
    assert parley("ca", "revoked", "--fresh", "--out", file, *unlock).returncode == 0
    assert parley("node", "revoked", file, "--folder", node).returncode == 0
    Path(file).write_bytes(old)
    older = parley("node", "revoked", file, "--folder", node)
    assert (older.returncode, "older than the one that this node has" in older.stderr) == (2, True)

    assert parley("node", "renew", "--folder", node).returncode == 0
    refused = parley(*approve)  # the same key again
    assert (refused.returncode, "the key of this request is revoked" in refused.stderr) == (2, True)
