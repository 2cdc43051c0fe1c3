"""A server is caught, and every node dies at every durable step of what follows: as if nobody had died."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.bench.train_data import study
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc.crash import VARIABLE
from parley.mpc.parts import NoiseParts
from parley.node.evidence import EvidenceFolder
from parley.node.trail import verify
from parley.party.outbox import LEFT, SETTLED, Outbox
from tests.end_to_end.chains import Chain, until_while_they_die
from tests.end_to_end.killing import ANSWERED, EVIDENCE
from tests.end_to_end.test_covert import (
    DIMENSION,
    PARTIES,
    ROUNDS,
    charged,
    named,
    pending,
    roomy,
    trails_hold,
    waits_for,
)

AT_THE_END = {
    Role.aggregator: ["aggregator.ended"],
    Role.coordinator: ["coordinator.ended", "coordinator.settled", "coordinator.failed"],
    Role.party: ["party.finished", "party.settled"],
}


@pytest.mark.slow
def test_a_server_is_caught_once_whatever_node_dies_at_whatever_step_of_it(tmp_path: Path) -> None:
    manifest = study("caught", PARTIES, DIMENSION, ROUNDS, NoiseParts("covert", 0.5, "1/4"))
    told = tmp_path / "lie now"
    with roomy(tmp_path, manifest) as federation:
        north, south = federation.aggregators
        south.before = ("tests.support.lying_aggregator", str(told))
        chains = {name: Chain(node) for name, node in federation.nodes.items()}
        for name in (north.name, federation.coordinator.name, "party-1"):
            chains[name].labels += EVIDENCE
        # A party hears of evidence at the end or before it, so that one alone dies of both in no certain order.
        for node in [north, south, federation.coordinator, *federation.parties[1:]]:
            chains[node.name].labels += AT_THE_END[node.role]
        for chain in chains.values():
            chain.start()
        for node in federation.nodes.values():
            node.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)

        def resting() -> bool:
            row = coordinator.store.get(digest)
            assert row is not None
            if row.round >= 2 and not told.exists():
                told.touch()
            return row.state.resting and not any(chain.left for chain in chains.values())

        until_while_they_die(chains.values(), resting)
        (evidence,) = pending(north)
        row = coordinator.store.get(digest)
        assert row is not None
        assert row.outcome == f"aggregator south did not follow the noise protocol (evidence {evidence[:16]}…)"
        assert row.state is State.failed
        everybody = [federation.coordinator, *federation.parties]
        until_while_they_die(chains.values(), lambda: all(charged(node, "caught").ended for node in federation.parties))
        for node in federation.parties:
            # By the end, or by the evidence, whichever it learned of first.
            assert _state(node, manifest)[0] in (SETTLED, LEFT)
        _nothing_more_before_the_answers(federation, coordinator, evidence)
    for node in [north, *everybody]:
        _kept_once(node, evidence)
    for node in everybody:
        _charged_once(node, evidence)
    assert EvidenceFolder(south.folder / "state").all() == []
    said = trails_hold(federation)
    assert evidence[:16] in said
    assert "NOT by" not in said


def _kept_once(node: NodeProcess, evidence: str) -> None:
    folder = EvidenceFolder(node.folder / "state")
    (held,) = folder.all()
    assert (held.digest, held.charged, held.runs) == (evidence, True, ("caught",)), node.name
    assert folder.unread() == [], node.name
    notes = [each for each in verify(node.folder / "state" / "trail.jsonl").notes if "epoch" not in each.fields]
    kept = [each.fields["digest"] for each in notes if each.event == "evidence.kept"]
    answered = [each.fields["digest"] for each in notes if each.event == "evidence.answered"]
    assert kept == [evidence], node.name
    assert answered == [] if held.answer is None else [evidence], node.name


def _charged_once(node: NodeProcess, evidence: str) -> None:
    run = charged(node, "caught")
    assert (run.evidence, run.cost.caught, run.ended) == ([evidence], 1, True), node.name
    assert run.cost.epsilon == run.cost.epsilon_if_a_server_lies, node.name


def _nothing_more_before_the_answers(federation: LocalFederation, coordinator: Coordinator, evidence: str) -> None:
    """Of the coordinator's operator, then of north's, each of whom dies of the answer once; parties wait for theirs."""
    (north, _), lead = federation.aggregators, federation.coordinator
    *_, (row, _) = coordinator.follow(coordinator.submit(named(federation.manifest, "again")))
    assert row.state is State.refused
    assert "parley evidence answer" in row.outcome
    _answered(lead, evidence)
    after = named(federation.manifest, "after")
    digest = coordinator.submit(after)
    asked = NodeName("bench", Role.aggregator, "north").uri
    waits_for(coordinator, digest, asked)
    _answered(north, evidence)
    until_while_they_die([], lambda: coordinator.store.answers(digest).get(asked, ("", ""))[0] == "joined")
    until_while_they_die([], lambda: all(_waits(node, after) for node in federation.parties))


def _waits(node: NodeProcess, manifest: Manifest) -> bool:
    state, reason = _state(node, manifest)
    assert state in ("", "waiting"), (node.name, state, reason)
    return "parley evidence answer" in reason


def _state(node: NodeProcess, manifest: Manifest) -> tuple[str, str]:
    outbox = Outbox(node.folder / "state" / "outbox.sqlite")
    try:
        return {held.digest: (held.state, held.reason) for held in outbox.runs()}.get(manifest.digest, ("", ""))
    finally:
        outbox.close()


def _answered(node: NodeProcess, evidence: str) -> None:
    """By a command that dies first when the trail has it, then when the record has; and says it a third time."""
    words = ["evidence", "answer", str(node.folder), evidence[:12], "--by", "A. Person", "--reason", "another machine"]
    command = [sys.executable, "-m", "parley.cli.main", *words]
    for label, still in ((ANSWERED, [evidence]), (EVIDENCE[1], [])):
        died = subprocess.run(command, env={**os.environ, VARIABLE: label}, check=False, capture_output=True)
        assert died.returncode == -9, died.stderr.decode()
        assert pending(node) == still
    again = subprocess.run(command, check=False, capture_output=True, text=True)
    assert again.returncode != 0
    assert "was answered by A. Person" in again.stderr
