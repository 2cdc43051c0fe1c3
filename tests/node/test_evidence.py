"""NODE/state/evidence: durable, private, never cleared by itself, and what its operator has answered."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from parley.federation.errors import EvidenceFileError
from parley.federation.names import NodeName, Role
from parley.node.evidence import MOST_BYTES, EvidenceFolder, Held, Newest, digest_of, waits_for_answer
from tests.support.caught import answer
from tests.support.documents import manifest

NORTH, SOUTH, EAST = (NodeName("cardio", Role.aggregator, name) for name in ("north", "south", "east"))


def held(folder: EvidenceFolder, data: bytes = b"proof", server: NodeName = SOUTH, at: str = "2026-01-01") -> Held:
    made = Held(folder.keep(data), server, "ab" * 32, at, ("heart-1",), True)
    folder.note(made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> EvidenceFolder:
    return EvidenceFolder(tmp_path / "state")


def test_what_is_kept_is_private_and_comes_back(folder: EvidenceFolder) -> None:
    made = held(folder)
    assert folder.read(made.digest) == b"proof"
    assert folder.all() == [made] == [folder.find(made.digest)]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {0o600}
    assert folder.keep(b"proof") == made.digest  # again: nothing happens
    assert folder.unread() == []


def test_a_node_that_holds_none_makes_no_folder(folder: EvidenceFolder) -> None:
    assert (folder.all(), folder.unread(), folder.pending(), folder.against(manifest())) == ([], [], [], [])
    assert not folder.path.exists()


def test_a_run_waits_for_evidence_against_its_own_servers_alone(folder: EvidenceFolder) -> None:
    held(folder, b"elsewhere", EAST)
    assert folder.against(manifest()) == []
    made = held(folder)
    assert folder.against(manifest()) == [made]
    assert folder.pending([NORTH]) == []
    assert made.digest[:16] in waits_for_answer([made])


def test_an_answer_names_a_person_and_a_reason_and_stands(folder: EvidenceFolder) -> None:
    made = held(folder)
    answered = folder.answered(made.digest[:8] + "…", "N. N.", "another machine")
    assert folder.pending() == [made], "it is nobody's before it is noted"
    folder.note(answered)
    assert folder.pending() == []
    assert folder.all() == [answered]
    assert answered.answer is not None
    assert (answered.answer.by, answered.answer.reason) == ("N. N.", "another machine")
    with pytest.raises(EvidenceFileError, match="was answered by N"):
        folder.answered(made.digest, "M. M.", "otherwise")


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("", "a reason"),
        ("  ", "a reason"),
        ("N. N.", ""),
        ("N.\nN.", "a reason"),
        ("N. N.", "x" * 301),
        ("x" * 81, "y"),
    ],
)
def test_an_answer_without_a_person_or_a_reason_is_none(folder: EvidenceFolder, by: str, reason: str) -> None:
    made = held(folder)
    with pytest.raises(EvidenceFileError, match="one line"):
        folder.answered(made.digest, by, reason)


@pytest.mark.parametrize("given", ["", "abc", "0" * 64, "../../etc/passwd", "*"])
def test_a_digest_that_names_nothing_here_is_refused(folder: EvidenceFolder, given: str) -> None:
    made = held(folder)
    with pytest.raises(EvidenceFileError, match=made.digest[:16]):
        folder.named(given)


def test_two_that_begin_alike_are_told_apart(folder: EvidenceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {b"one": "ab" * 31 + "01", b"two": "ab" * 31 + "02"}
    monkeypatch.setattr("parley.node.evidence.digest_of", lambda data: names[data])
    first, second = held(folder, b"one"), held(folder, b"two")
    assert folder.named(first.digest) == first
    assert folder.named(second.digest) == second
    with pytest.raises(EvidenceFileError, match="not one"):
        folder.named("ab" * 8)


def test_an_answer_and_a_charge_that_come_at_once_both_hold(folder: EvidenceFolder) -> None:
    """A process that has read the record before a person answered does not write the answer away."""
    made = replace(held(folder), charged=False)
    folder.note(made)
    answer(folder, made.digest)
    found = folder.change(made.digest, charged=True)
    assert found.charged
    assert found.answer is not None
    assert folder.all() == [found]


def test_a_damaged_file_is_noticed(folder: EvidenceFolder) -> None:
    made = held(folder)
    (folder.path / f"{made.digest}.evidence").write_bytes(b"something else")
    with pytest.raises(EvidenceFileError, match="damaged"):
        folder.read(made.digest)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"server": "nobody"}', "\x00"])
def test_a_damaged_record_stops_whoever_asks(folder: EvidenceFolder, text: str) -> None:
    """Nobody can tell then whether a server waits for an answer: the node begins nothing."""
    made = held(folder)
    (folder.path / f"{made.digest}.json").write_text(text)
    with pytest.raises(EvidenceFileError, match="restore it from a backup"):
        folder.against(manifest())


def test_a_file_that_was_not_looked_at_is_found(folder: EvidenceFolder) -> None:
    digest = folder.keep(b"left by a crash")
    (folder.path / "notes.txt").write_text("a person's")
    assert folder.unread() == [digest] == [digest_of(b"left by a crash")]


def test_the_folder_does_not_grow_without_end(folder: EvidenceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.node.evidence.MOST_FILES", 2)
    held(folder, b"1")
    held(folder, b"2")
    with pytest.raises(EvidenceFileError, match="2 files"):
        folder.keep(b"3")
    assert len(folder.keep(b"1")) == 64


def test_whoever_asks_all_the_time_reads_it_when_it_has_changed(folder: EvidenceFolder) -> None:
    newest = Newest(folder)
    assert newest.all() == []
    made = held(folder)
    assert newest.pending == [made]
    answer(folder, made.digest)
    assert newest.pending == []
    assert len(newest.all()) == 1


def test_a_file_that_is_too_long_is_not_read_whole(folder: EvidenceFolder) -> None:
    made = held(folder)
    (folder.path / f"{made.digest}.evidence").write_bytes(bytes(4 * MOST_BYTES))
    with pytest.raises(EvidenceFileError):
        folder.read(made.digest)


def test_two_changes_within_one_tick_of_a_coarse_clock_are_seen(tmp_path: Path) -> None:
    """A folder's own time stands still for milliseconds on many file systems, and evidence would stay unseen."""
    folder = EvidenceFolder(tmp_path)
    first, second = (Held(each * 64, SOUTH, each * 64, "2026-11-20T00:00:00+00:00") for each in "ab")
    folder.path.mkdir()
    folder.note(first)
    _one_tick(folder)
    newest = Newest(folder)
    assert newest.all() == [first]
    folder.note(second)
    _one_tick(folder)
    assert newest.all() == [first, second]


def _one_tick(folder: EvidenceFolder) -> None:
    for path in (*folder.path.iterdir(), folder.path):
        os.utime(path, ns=(1, 1))
