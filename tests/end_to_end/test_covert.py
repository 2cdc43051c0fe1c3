"""Whole runs under `security = "covert"`, over processes and TLS: one that ends, and one whose server B lies."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.bench.train_data import study, write_party
from parley.cli.main import app
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RunRow, State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.toml_text import toml_text
from parley.mpc.crash import VARIABLE
from parley.mpc.parts import NoiseParts
from parley.node.credentials import NodeFolder
from parley.node.evidence import EvidenceFolder
from parley.node.pins import key_text
from parley.party.outbox import Outbox
from parley.privacy.ledger import Ledger
from parley.privacy.ledger_state import Run
from tests.end_to_end.chains import AMONG_TESTS
from tests.end_to_end.killing import HELD
from tests.end_to_end.test_malicious import pools
from tests.support.until import until

PARTIES, ROUNDS, DIMENSION = 3, 24, 4000
"""96,000 joint samples: three times what a pool of audited noise holds, so that it is made while the run goes on."""


def command(*words: str | Path) -> tuple[int, str]:
    """`parley …`: its exit code and what it prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def data_in(folder: Path) -> dict[str, list[Path]]:
    found = {}
    for place in range(PARTIES):
        path = folder / f"party-{place + 1}.libsvm"
        write_party(path, place, DIMENSION)
        found[f"party-{place + 1}"] = [path]
    return found


def roomy(folder: Path, manifest: Manifest, dashboard: bool = False) -> LocalFederation:
    """With room for what a caught server costs, and for a run after it."""
    budget = (400.0, 1e-3)
    made = LocalFederation(folder / "nodes", manifest, data_in(folder), budget=budget, dashboard=dashboard)
    for node in made.parties:
        policy = node.folder / "policy.toml"
        policy.write_text(policy.read_text().replace("epsilon_total = 4.0", "epsilon_total = 400.0"))
    return made


def named(manifest: Manifest, run: str) -> Manifest:
    return Manifest.from_json({**manifest.as_json(), "run": run})


def ended(federation: LocalFederation, manifest: Manifest) -> RunRow:
    coordinator = Coordinator(federation.coordinator.folder)
    *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
    return row


def charged(node: NodeProcess, run: str) -> Run:
    ledger = Ledger.open(node.folder / "state" / "ledger.sqlite")
    try:
        return ledger.runs[run]
    finally:
        ledger.close()


def pending(node: NodeProcess) -> list[str]:
    return [held.digest for held in EvidenceFolder(node.folder / "state").pending()]


def waits_for(coordinator: Coordinator, digest: bytes, node: str) -> None:
    """Until that node has said that it waits for a person."""
    until(lambda: coordinator.store.answers(digest).get(node, ("", ""))[0] == "pending")


def trails_hold(federation: LocalFederation) -> str:
    code, said = command("audit", "verify", *(node.folder for node in federation.nodes.values()))
    assert code == 0, said
    return said


@pytest.mark.slow
def test_a_covert_run_ends_with_a_model_and_audits_that_both_servers_count_alike(tmp_path: Path) -> None:
    manifest = study("watched", PARTIES, DIMENSION, ROUNDS, NoiseParts("covert", 0.5, "1/4"))
    with LocalFederation(tmp_path / "nodes", manifest, data_in(tmp_path)) as federation:
        federation.start()
        row = ended(federation, manifest)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
        first, second = (each.covert for each in pools(federation))
        assert (first.audits_made, first.audits_passed) == (second.audits_passed, second.audits_made)
        # Some sixty batches were kept, each after a third of an audit by either: none at all is 1 in 10^9.
        assert first.audits_made > 0
        assert second.audits_made > 0
        assert first.used == second.used == manifest.joint_samples
        until(lambda: all(each.covert.resting == "no open run needs audited noise" for each in pools(federation)))
        assert all(each.pool_used == 0 for each in pools(federation)), "no plain noise was used"
        # A server that is started again makes no audited noise for a run that is over.
        federation.aggregators[0].stop()
        federation.aggregators[0].start()
        federation.aggregators[0].wait_ready()
        assert not any(EvidenceFolder(node.folder / "state").all() for node in federation.nodes.values())
    for node in [federation.coordinator, *federation.parties]:
        cost = charged(node, manifest.run).cost
        assert not cost.caught
        assert cost.epsilon_if_a_server_lies is not None
    assert "audits" in trails_hold(federation)


@pytest.mark.slow
def test_a_server_that_lies_is_caught_and_named_and_nobody_works_with_it_before_its_operator_answers(
    tmp_path: Path,
) -> None:
    manifest = study("spoiled", PARTIES, DIMENSION, ROUNDS, NoiseParts("covert", 0.5, "1/2"))
    told = tmp_path / "lie now"
    with roomy(tmp_path, manifest) as federation:
        north, south = federation.aggregators
        south.before = ("tests.support.lying_aggregator", str(told))
        _start(federation, south)
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        until(lambda: _round(coordinator, digest) >= 2)
        told.touch()  # from now on; what is in the pool is honest, and is not enough for the run
        *_, (row, _) = coordinator.follow(digest)
        (evidence,) = pending(north)
        assert row.state is State.failed, federation.coordinator.tail()
        assert row.outcome == f"aggregator south did not follow the noise protocol (evidence {evidence[:16]}…)"
        everybody = [north, federation.coordinator, *federation.parties]
        until(lambda: all(pending(node) == [evidence] for node in everybody))
        until(lambda: all(charged(node, manifest.run).evidence == [evidence] for node in everybody[1:]))
        for node in everybody[1:]:
            cost = charged(node, manifest.run).cost
            assert (cost.caught, cost.epsilon) == (1, cost.epsilon_if_a_server_lies)
        assert pending(south) == []
        _verified(tmp_path, federation, north, evidence)

        again = named(manifest, "again")
        refused = ended(federation, again)
        assert refused.state is State.refused
        assert "parley evidence answer" in refused.outcome
        _answered(federation.coordinator, evidence)
        twice = named(manifest, "twice")
        second = coordinator.submit(twice)
        waits_for(coordinator, second, NodeName("bench", Role.aggregator, "north").uri)
        south.stop()
        south.before = ()
        south.start()
        south.wait_ready()
        _answered(north, evidence)
        until(lambda: all(_waits(node, twice) for node in federation.parties))
        for node in federation.parties:
            _answered(node, evidence)
        *_, (row, _) = coordinator.follow(second)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
    for node in [federation.coordinator, *federation.parties]:
        assert charged(node, manifest.run).cost.caught == 1
        assert charged(node, twice.run).cost.caught == 0
    assert evidence[:16] in trails_hold(federation)


@pytest.mark.slow
def test_a_server_that_dies_before_its_first_verdict_has_caught_the_liar_when_it_is_back(tmp_path: Path) -> None:
    """Killed right before it would tell the liar of the audit, as by one who can make it run out of memory."""
    manifest = study("killed", PARTIES, DIMENSION, ROUNDS, NoiseParts("covert", 0.5, "1/2"))
    told = tmp_path / "lie now"
    told.touch()
    with LocalFederation(tmp_path / "nodes", manifest, data_in(tmp_path)) as federation:
        north, south = federation.aggregators
        south.before = ("tests.support.lying_aggregator", str(told))
        _start(federation, south, {north.name: {VARIABLE: HELD}})
        Coordinator(federation.coordinator.folder).submit(manifest)
        until(lambda: not north.alive)
        folder = EvidenceFolder(north.folder / "state")
        (digest,) = folder.waiting()
        assert not folder.all()
        assert not folder.unread()
        north.start()
        north.wait_ready()
        (held,) = folder.pending()
        assert (held.digest, held.server.name, held.runs) == (digest, south.name, (manifest.run,))
        assert folder.waiting() == {}


def _start(federation: LocalFederation, liar: NodeProcess, more: dict[str, dict[str, str]] | None = None) -> None:
    """`more`: by node, of its environment."""
    for node in [*federation.aggregators, federation.coordinator, *federation.parties]:
        node.start(AMONG_TESTS if node is liar else (more or {}).get(node.name))
    for node in federation.nodes.values():
        node.wait_ready()


def _round(coordinator: Coordinator, digest: bytes) -> int:
    row = coordinator.store.get(digest)
    assert row is not None
    assert not row.state.resting, row.outcome
    return row.round


def _waits(node: NodeProcess, manifest: Manifest) -> bool:
    outbox = Outbox(node.folder / "state" / "outbox.sqlite")
    try:
        states = {held.run: (held.state, held.reason) for held in outbox.runs()}
    finally:
        outbox.close()
    state, reason = states.get(manifest.run, ("", ""))
    return state == "waiting" and "parley evidence answer" in reason


def _answered(node: NodeProcess, evidence: str) -> None:
    words = ("evidence", "answer", node.folder, evidence[:12], "--by", "A. Person", "--reason", "another machine there")
    code, said = command(*words)
    assert code == 0, said
    assert pending(node) == []
    assert command(*words)[0] != 0, "the first answer stands"


def _verified(folder: Path, federation: LocalFederation, keeper: NodeProcess, evidence: str) -> None:
    """As anybody does it, with the file alone."""
    file = keeper.folder / "state" / "evidence" / f"{evidence}.evidence"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_size < 2048
    manifest = folder / "run.toml"
    manifest.write_text(toml_text(federation.manifest.as_json()) + "\n")
    south = NodeName("bench", Role.aggregator, "south")
    pins = [NodeFolder(node.folder / "identity").load().pin for node in federation.aggregators]
    code, said = command("evidence", "verify", file, "--pin", key_text(pins[1]), "--manifest", manifest, "--json")
    found = json.loads(said.splitlines()[-1])
    assert (code, found["guilty"], found["server"], found["key_is_the_pin"]) == (0, True, south.name, True)
    assert found["evidence"] == evidence
    code, said = command("evidence", "verify", file, "--pin", key_text(pins[0]))
    assert code == 1
    assert "ANOTHER key" in said
    assert "whoever holds SHA-256:" in said
