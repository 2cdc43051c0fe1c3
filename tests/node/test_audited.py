"""Audits and evidence, by the trails of all nodes laid side by side."""

from pathlib import Path
from typing import Any

from parley.federation.names import NodeName, Role
from parley.node.audited import Audits, audits_in
from parley.node.trail import Trail, verify

EPOCH, OTHER = "ab" * 16, "cd" * 16
NORTH, SOUTH = (NodeName("cardio", Role.aggregator, name) for name in ("north", "south"))
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

    def server(self, role: int, index: int, made: int, passed: int, epoch: str = EPOCH, run: str = "heart-1") -> None:
        node = (NORTH, SOUTH)[role]
        counts = {"audits_made": made, "audits_passed": passed}
        self.write(node, "round.opened", run=run, round=index, present=3, epoch=epoch, server=role, **counts)

    def party(self, index: int, a: int, b: int, epoch: str = EPOCH) -> None:
        self.write(PARTY, "statement.seen", run="heart-1", round=index, epoch=epoch, audits=(a, b))

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
