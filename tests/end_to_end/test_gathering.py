"""A run that comes to nothing while it is gathered costs nobody anything: real processes, and their ledgers after."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import RunRow, State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest
from parley.mpc.tables import Precision
from parley.node.node_file import AggregatorNode, read_node
from parley.node.node_text import write_node
from parley.privacy.ledger import Ledger


def tried(federation: LocalFederation, manifest: Manifest) -> tuple[RunRow, int]:
    """How it ended, and how many aggregators have signed that."""
    federation.start()
    coordinator = Coordinator(federation.coordinator.folder)
    digest = coordinator.submit(manifest)
    *_, (row, _) = coordinator.follow(digest)
    return row, len(coordinator.store.ends(digest))


def spent(federation: LocalFederation) -> dict[str, float]:
    found = {}
    for node in [federation.coordinator, *federation.parties]:
        ledger = Ledger.open(node.folder / "state" / "ledger.sqlite")
        found[node.name] = sum(each.spent.epsilon + each.spent.delta for each in ledger.populations.values())
        ledger.close()
    return found


@pytest.mark.slow
def test_one_hospitals_refusal_costs_the_others_nothing(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    with LocalFederation(tmp_path / "nodes", manifest, data) as federation:
        broken = federation.parties[1].folder / "policy.toml"
        # Final: what a person may wave through would be waited for.
        broken.write_text(re.sub("epsilon_total = .*", "epsilon_total = 1e-6", broken.read_text()))
        row, signed = tried(federation, manifest)
        assert (row.state, signed) == (State.failed, 2)
        assert "party-2 refused" in row.outcome
        assert set(spent(federation).values()) == {0.0}


@pytest.mark.slow
def test_an_aggregator_that_refuses_costs_nobody_anything(
    tmp_path: Path, manifest: Manifest, data: dict[str, list[Path]]
) -> None:
    with LocalFederation(tmp_path / "nodes", manifest, data) as federation:
        refusing = federation.aggregators[1]
        node = read_node(refusing.folder)
        assert isinstance(node, AggregatorNode)
        other: Precision = "high" if manifest.noise.precision == "standard" else "standard"
        write_node(replace(node, noise=replace(node.noise, precision=other)))
        row, signed = tried(federation, manifest)
        assert (row.state, signed) == (State.failed, 2)
        assert f"{refusing.name} does not take part" in row.outcome
        assert set(spent(federation).values()) == {0.0}
        assert '"event":"run.never_admitted"' in (refusing.folder / "state" / "trail.jsonl").read_text()
