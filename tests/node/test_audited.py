"""Audits and evidence, by the trails of all nodes laid side by side."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from parley.federation.errors import TrailError
from parley.federation.names import NodeName, Role
from parley.node.audited import Audits, Kept, audits_in
from parley.node.trail import Trail, verify
from parley.privacy.head import START

EPOCH, OTHER = "ab" * 16, "cd" * 16
NORTH, SOUTH, EAST, WEST = (NodeName("cardio", Role.aggregator, name) for name in ("north", "south", "east", "west"))
MANIFESTS = ("11" * 32, "22" * 32)
PARTY = NodeName("cardio", Role.party, "hospital-a")
PROOF = "0f" * 32


class Nodes:
    """Their trails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trails: dict[NodeName, Path] = {}

    def write(self, node: NodeName, event: str, **fields: Any) -> None:
        path = self._trails.setdefault(node, self._folder / f"{node.name}.jsonl")
        with Trail.open(path, node) as trail:
            trail.append(event, **fields)

    def server(
        self, role: int, index: int, made: int, passed: int, epoch: str = EPOCH, pair: int = 0
    ) -> None:  # fmt: skip
        node, manifest = ((NORTH, SOUTH), (EAST, WEST))[pair][role], MANIFESTS[pair]
        counts = {"audits_made": made, "audits_passed": passed}
        self.write(
            node, "round.opened", run="heart-1", manifest=manifest, round=index, present=3, epoch=epoch, server=role,
            **counts,
        )  # fmt: skip

    def party(self, index: int, a: int, b: int, epoch: str = EPOCH) -> None:
        self.write(
            PARTY, "statement.seen", run="heart-1", manifest=MANIFESTS[0], round=index, epoch=epoch, audits=(a, b)
        )

    def found(self) -> Audits:
        return audits_in([verify(path) for path in self._trails.values()])


def test_what_one_server_has_made_the_other_has_passed(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    for index, (a, b) in enumerate([(0, 1), (3, 1), (4, 6)]):
        nodes.server(0, index, a, b)
        nodes.server(1, index, b, a)
        nodes.party(index, a, b)
    nodes.server(0, 3, 7, 8)
    nodes.write(NORTH, "round.opened", run="plain", round=0, present=3)  # of a run without audits
    assert nodes.found() == Audits(3, 1, (), {})


def test_a_server_that_counts_audits_which_the_other_was_not_in_is_found(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.server(0, 0, 4, 1)
    nodes.server(1, 0, 1, 3)
    found = nodes.found()
    (line,) = found.contradicting
    assert "round 0 of run heart-1" in line
    assert "aggregator/north" in line
    assert "aggregator/south" in line
    assert found.agree == 0


def test_a_party_that_was_told_otherwise_is_found(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.server(0, 0, 4, 1)
    nodes.server(1, 0, 1, 4)
    nodes.party(0, 4, 2)
    assert len(nodes.found().contradicting) == 1


def test_counts_that_go_back_in_one_session_are_found_and_a_new_session_begins_anew(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.server(0, 0, 4, 1)
    nodes.server(0, 1, 0, 0, OTHER)
    assert nodes.found().contradicting == ()
    nodes.server(0, 2, 3, 0, OTHER)
    nodes.server(0, 3, 2, 1, OTHER)
    (line,) = nodes.found().contradicting
    assert "fewer audits in round 3" in line


def test_who_keeps_which_evidence_and_who_has_answered(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    for node in (NORTH, PARTY):
        nodes.write(node, "evidence.kept", peer=SOUTH, digest=PROOF, runs=1)
    nodes.write(SOUTH, "process.ready", ports=[1])
    words = {"digest": PROOF, "peer": SOUTH, "approved_by": "N. N.", "reason": "another machine, since Monday"}
    nodes.write(PARTY, "evidence.answered", **words)
    (kept,) = nodes.found().evidence.values()
    assert (kept.server, kept.by, kept.answered) == (
        SOUTH.uri, ["aggregator/north", "party/hospital-a"], ["party/hospital-a"]
    )  # fmt: skip


def test_two_pairs_of_servers_may_each_have_a_run_of_one_name(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    for pair, (a, b) in ((0, (4, 1)), (1, (0, 2))):
        nodes.server(0, 0, a, b, (EPOCH, OTHER)[pair], pair)
        nodes.server(1, 0, b, a, (EPOCH, OTHER)[pair], pair)
    assert nodes.found() == Audits(2, 0, (), {})


def test_evidence_that_a_crash_has_written_down_twice_is_kept_once(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.write(PARTY, "evidence.answered", digest=PROOF, peer=SOUTH, approved_by="N. N.", reason="another machine")
    for _ in range(2):
        nodes.write(NORTH, "evidence.kept", digest=PROOF, peer=SOUTH, runs=1)
    assert nodes.found().evidence == {PROOF: Kept(SOUTH.uri, ["aggregator/north"], ["party/hospital-a"])}


GOOD = {"run": "heart-1", "manifest": MANIFESTS[0], "round": 0, "epoch": EPOCH, "audits": [1, 2]}


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("evidence.kept", {"digest": PROOF}),
        ("evidence.kept", {"digest": "\x1b[2J", "peer": SOUTH.uri}),
        ("evidence.kept", {"digest": PROOF, "peer": "\x1b]0;all is well\a"}),
        ("evidence.kept", {"digest": [], "peer": SOUTH.uri}),
        ("evidence.answered", {}),
        ("statement.seen", GOOD | {"round": "0"}),
        ("statement.seen", GOOD | {"audits": [1]}),
        ("statement.seen", GOOD | {"audits": ["1", "2"]}),
        ("statement.seen", GOOD | {"run": "\x1b[31mheart"}),
        ("statement.seen", GOOD | {"epoch": {}}),
        ("statement.seen", {"epoch": EPOCH}),
        ("round.opened", {each: GOOD[each] for each in GOOD if each != "audits"} | {"server": 0, "audits_made": 1}),
        ("round.answered", {"peer_events": 5}),
        ("round.answered", {"peer_events": ["aggregator/north/\x1b[2J"]}),
        ("round.answered", {"peer_event": {"a": 1}}),
    ],
)
def test_a_trail_of_other_things_than_nodes_write_stops_no_auditor_and_reaches_no_terminal(
    tmp_path: Path, event: str, fields: dict[str, Any]
) -> None:
    """Whoever hands in a trail has made its chain of hashes."""
    path = tmp_path / "trail.jsonl"
    path.write_bytes(line(event, fields))
    with pytest.raises(TrailError, match="entry 1 is not what a node writes") as error:
        verify(path)
    assert str(error.value).isprintable()
    path.write_bytes(line("statement.seen", GOOD))
    assert len(verify(path).notes) == 1


@pytest.mark.parametrize("node", ["\x1b[2J", "parley://cardio/party/\x1b[31m", ""])
def test_a_trail_of_no_node_is_a_problem_of_that_trail_alone(tmp_path: Path, node: str) -> None:
    path = tmp_path / "trail.jsonl"
    path.write_bytes(line("process.ready", {}, node))
    with pytest.raises(TrailError, match="is no node's") as error:
        verify(path)
    assert str(error.value).isprintable()


def line(event: str, fields: dict[str, Any], node: str = PARTY.uri) -> bytes:
    """Of a trail, whole."""
    body = {
        "sequence": 1, "time": "2026-11-20T00:00:00.000+00:00", "node": node, "event": event, "fields": fields,
        "previous": START.digest,
    }  # fmt: skip
    text = json.dumps(body, separators=(",", ":")).encode()
    digest = hashlib.sha256(b"parley trail 1\n" + text).hexdigest()
    return text[:-1] + f',"hash":"{digest}"}}\n'.encode()
