"""A server that dies, or is stopped, while batches are audited: the run goes on, and nobody is accused."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.aggregator.opening_store import OpeningStore, Phase
from parley.bench.train_data import study
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.mpc.parts import NoiseParts
from parley.node.evidence import EvidenceFolder
from parley.node.trail import verify
from tests.end_to_end.chains import Chain, until_while_they_die
from tests.end_to_end.killing import AUDITS
from tests.end_to_end.test_covert import DIMENSION, PARTIES, ROUNDS, charged, data_in, trails_hold

AUDITING, AUDITED = AUDITS


@pytest.mark.slow
def test_a_run_goes_on_though_both_servers_die_in_the_middle_of_audits_and_accuses_nobody(tmp_path: Path) -> None:
    manifest = study("interrupted", PARTIES, DIMENSION, ROUNDS, NoiseParts("covert", 0.5, "1/4"))
    with LocalFederation(tmp_path / "nodes", manifest, data_in(tmp_path)) as federation:
        chains = [Chain(node) for node in federation.nodes.values()]
        north, south = (next(chain for chain in chains if chain.node is node) for node in federation.aggregators)
        # As they fill their pools for the first time, each of both; later, as they make noise for the rounds to come.
        north.labels += [f"{AUDITING}:2", f"{AUDITED}:2"]
        for chain in chains:
            chain.start()
        for chain in chains:
            chain.node.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        until_while_they_die(chains, lambda: not north.left and _round(coordinator, digest) >= 2)
        north.node.wait_ready()
        _stopped(chains)  # all nodes, by Ctrl-C, and started again
        south.labels += [AUDITED, AUDITING]
        for chain in chains:
            chain.start()
        until_while_they_die(chains, lambda: not south.left and _round(coordinator, digest) >= 4)
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
        until_while_they_die([], lambda: all(charged(node, manifest.run).ended for node in federation.parties))
        for node in federation.nodes.values():
            assert EvidenceFolder(node.folder / "state").all() == [], node.name
            assert EvidenceFolder(node.folder / "state").unread() == [], node.name
    _each_round_has_noise_of_its_own(federation, manifest)
    said = trails_hold(federation)
    assert f"audits: {ROUNDS} rounds counted alike by all; 0 are in one trail only" in said
    made = [words["audits_made"] + words["audits_passed"] for words in _stated(federation.aggregators[0])]
    assert max(made) > 0
    assert len({words["epoch"] for words in _stated(federation.aggregators[0])}) > 1, "the rounds outlived a session"


def _round(coordinator: Coordinator, digest: bytes) -> int:
    row = coordinator.store.get(digest)
    assert row is not None
    assert not row.state.resting, row.outcome
    return row.round


def _stopped(chains: list[Chain]) -> None:
    for chain in chains:
        assert chain.node.process is not None
        chain.node.process.send_signal(signal.SIGINT)
    for chain in chains:
        assert chain.node.process is not None
        assert chain.node.process.wait() == 0, f"{chain.node.name}: {chain.node.tail()}"


def _stated(node: NodeProcess) -> Iterator[Mapping[str, Any]]:
    """Of each round, what this server has written down of its noise."""
    for event in verify(node.folder / "state" / "trail.jsonl").notes:
        if event.event == "round.opened":
            yield event.fields


def _each_round_has_noise_of_its_own(federation: LocalFederation, manifest: Manifest) -> None:
    """On both servers the same; an opening's name has the noise's place in it."""
    found = []
    for node in federation.aggregators:
        store = OpeningStore(node.folder / "state" / "openings.sqlite")
        rounds = [store.find(manifest.run, index) for index in range(manifest.releases)]
        assert all(stored is not None and stored.phase is Phase.committed for stored in rounds)
        assert store.counts(manifest.run).mine == manifest.releases
        found.append([stored.opened.opening for stored in rounds if stored is not None])
        store.close()
    assert found[0] == found[1]
    assert len(set(found[0])) == manifest.releases
