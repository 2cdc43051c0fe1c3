"""Nodes of this release and of the one before, in one federation of real processes: whole runs, both ways round."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.bench.train_data import study
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest
from parley.mpc.parts import USUAL, NoiseParts
from parley.privacy.ledger import Ledger
from tests.end_to_end.conftest import DIMENSION, PARTIES, ROUNDS
from tests.support.previous import environment, installed

MODES = {"semi-honest": USUAL, "covert": NoiseParts("covert", 0.5, "1/4")}
PLACES = ("party-1", "first aggregator", "second aggregator", "coordinator")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("previous"))


def run(
    folder: Path, manifest: Manifest, data: dict[str, list[Path]], site: Path, place: str, alone_is_old: bool
) -> None:
    """`place` is of the one release, all others of the other."""
    with LocalFederation(folder, manifest, data, budget=(400.0, 1e-3)) as federation:
        names = dict(zip(("first aggregator", "second aggregator"), federation.aggregators, strict=True))
        chosen = names.get(place) or (federation.coordinator if place == "coordinator" else federation.nodes[place])
        for node in federation.parties:
            policy = node.folder / "policy.toml"
            policy.write_text(policy.read_text().replace("epsilon_total = 4.0", "epsilon_total = 400.0"))
        for node in federation.nodes.values():
            node.start(environment(site) if (node is chosen) == alone_is_old else None)
        for node in federation.nodes.values():
            node.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        logs = "\n".join(f"{node.name}: {node.tail()}" for node in federation.nodes.values())
        assert row.state is State.finished, (row.outcome, logs)
        assert row.round == manifest.releases, logs
        for party in federation.parties:
            ledger = Ledger.open(party.folder / "state" / "ledger.sqlite")
            assert set(ledger.runs) == {manifest.run}
            ledger.close()


@pytest.mark.long
@pytest.mark.parametrize("alone_is_old", [True, False], ids=["one-old", "one-new"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_a_run_over_both_releases_ends_as_any(
    tmp_path: Path, data: dict[str, list[Path]], site: Path, mode: str, place: str, alone_is_old: bool
) -> None:
    manifest = study("mixed", PARTIES, DIMENSION, ROUNDS, MODES[mode], "words")
    run(tmp_path / "nodes", manifest, data, site, place, alone_is_old)


@pytest.mark.long
def test_a_node_of_the_release_before_refuses_packed_uploads_by_their_name_and_takes_words(
    tmp_path: Path, site: Path
) -> None:
    """Nothing is charged for a run whose halves it would cut otherwise than the others."""
    read = (
        "import sys; from parley.federation.manifest import Manifest; Manifest.from_canonical(sys.stdin.buffer.read())"
    )
    said = []
    for uploads in ("packed", "words"):
        made = study("mixed", PARTIES, DIMENSION, ROUNDS, uploads=uploads)
        said.append(
            subprocess.run(
                [sys.executable, "-P", "-c", read],
                input=made.canonical,
                capture_output=True,
                check=False,
                cwd=tmp_path,
                env={**os.environ, **environment(site)},
            )
        )
    packed, words = said
    assert packed.returncode
    assert b"rounds.uploads" in packed.stderr
    assert words.returncode == 0, words.stderr


@pytest.mark.long
def test_a_coordinator_of_the_release_before_leads_upgraded_servers_and_parties(
    tmp_path: Path, data: dict[str, list[Path]], site: Path
) -> None:
    """As a federation stands in the order of an upgrade, before its last step."""
    manifest = study("mixed", PARTIES, DIMENSION, ROUNDS, uploads="words")
    run(tmp_path / "nodes", manifest, data, site, "coordinator", alone_is_old=True)
