"""A person admits a run at an aggregator by hand, in this process; what its operator asks of its books."""

import json
from pathlib import Path

import pytest

import parley.aggregator.approval
from parley.aggregator.approval import approve, runs_of
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.server import OPENINGS_FILE
from parley.federation.admission import AdmissionRecord
from parley.federation.errors import ApprovalError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.node.errors import NodeError
from parley.node.node_file import AggregatorNode, read_node
from tests.support import documents
from tests.support.servers import Federation


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AggregatorNode:
    """Server A's; its accounting is tests/federation/test_meaning.py's."""

    def quick(manifest: Manifest, kept: Path) -> Meaning:
        return documents.meaning(run=manifest.run)

    monkeypatch.setattr(parley.aggregator.approval, "verify_apart", quick)
    made = Federation(tmp_path)
    made.configure(0, made.servers[0].path, peer=1)
    found = read_node(made.servers[0].path)
    assert isinstance(found, AggregatorNode)
    return found


def events(node: AggregatorNode) -> list[str]:
    if not node.trail.exists():
        return []
    return [json.loads(line)["event"] for line in node.trail.read_text().splitlines()]


def test_a_person_overrides_a_limit_of_the_policy_and_is_on_the_trail(node: AggregatorNode) -> None:
    manifest, said = documents.manifest(), list[str]()
    node.policy.write_text(documents.AGGREGATOR_POLICY.replace("largest_rounds = 40", "largest_rounds = 2"))
    outcome = approve(node, manifest, manifest.digest.hex(), "N. N.", said.append)
    assert outcome.against == []
    assert ["largest_rounds" in each for each in outcome.overridden] == [True]
    assert said == ["verifying what the manifest claims"]
    last = json.loads(node.trail.read_text().splitlines()[-1])
    assert (last["event"], last["fields"]["run"]) == ("run.approved", "heart-1")
    OpeningStore(node.state / OPENINGS_FILE).close()  # as the server does when it starts
    (shown,) = runs_of(node)
    assert (shown["run"], shown["state"], shown["opened"]) == ("heart-1", "open", 0)
    assert (shown["how"], shown["approved_by"]) == ("hand", "N. N.")


def test_the_digest_of_another_manifest_admits_nothing(node: AggregatorNode) -> None:
    with pytest.raises(ApprovalError, match="not this manifest's"):
        approve(node, documents.manifest(), documents.manifest(run="heart-2").digest.hex(), "N. N.", print)
    assert events(node) == []


def test_what_this_server_cannot_do_nobody_can_approve(node: AggregatorNode) -> None:
    """Its tables are of another precision: refused before anything is verified, or written."""
    manifest, said = documents.manifest(**{"noise.precision": "high"}), list[str]()
    outcome = approve(node, manifest, manifest.digest.hex(), "N. N.", said.append)
    assert len(outcome.against) == 1
    assert "strips/high" in outcome.against[0]
    assert (outcome.overridden, said, events(node)) == ([], [], [])


def test_a_node_that_never_ran_has_no_books_yet(node: AggregatorNode) -> None:
    with pytest.raises(NodeError, match="has no state yet: start it with"):
        runs_of(node)


def test_runs_are_open_until_they_end_or_are_withdrawn(node: AggregatorNode) -> None:
    record, store = AdmissionRecord(node.admissions), OpeningStore(node.state / OPENINGS_FILE)
    made = [documents.manifest(run=run) for run in ("heart-1", "heart-2", "heart-3")]
    for each in made:
        record.put(each, "policy", "policy")
    store.end(made[1].run)
    record.withdraw(made[2].digest)
    record.close()
    store.close()
    assert {each["run"]: each["state"] for each in runs_of(node)} == {
        "heart-1": "open",
        "heart-2": "ended",
        "heart-3": "withdrawn",
    }
