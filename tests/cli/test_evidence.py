"""`parley evidence`: a verdict for anybody, and what an operator sees and answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.federation.toml_text import toml_text
from parley.mpc.evidence import Evidence
from parley.node.authority import ThrowAwayAuthority
from parley.node.docket import incident_of
from parley.node.evidence import EvidenceFolder, Held, digest_of
from parley.node.pins import key_text
from tests.support.caught import PAIR, evidence_by, no_evidence_by
from tests.support.documents import manifest
from tests.support.stage import NORTH, SOUTH, Stage


@pytest.fixture(scope="module")
def authority() -> ThrowAwayAuthority:
    return ThrowAwayAuthority("cardio")


@pytest.fixture(scope="module")
def proof(authority: ThrowAwayAuthority) -> Evidence:
    """Against south."""
    return evidence_by([authority.issue_as(name) for name in PAIR])


@pytest.fixture
def file(proof: Evidence, tmp_path: Path) -> Path:
    path = tmp_path / "a.evidence"
    path.write_bytes(proof.encoded())
    return path


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["evidence", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def toml(folder: Path, **changes: object) -> Path:
    path = folder / "run.toml"
    path.write_text(toml_text(manifest(**changes).as_json()) + "\n")
    return path


def test_anybody_can_check_it_with_the_file_alone(file: Path, proof: Evidence, tmp_path: Path) -> None:
    """In another process, in a folder with nothing, and with no home."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "none")}
    command = [sys.executable, "-I", "-m", "parley.cli.main", "evidence", "verify", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first == f"guilty    whoever holds SHA-256:{digest_of(proof.accused_key)} departed from the protocol"
    assert "message" in second
    assert "as server B" in done.stdout
    assert "strips/standard" in done.stdout


def test_a_pin_says_whose_key_it_is(file: Path, proof: Evidence) -> None:
    code, said = run("verify", file, "--pin", key_text(proof.accused_key))
    assert code == 0
    assert "it is that key" in said
    code, said = run("verify", file, "--pin", key_text(proof.accuser_key))
    assert code == 1
    assert "ANOTHER key" in said


def test_a_manifest_says_which_of_its_servers_is_meant(file: Path, proof: Evidence, tmp_path: Path) -> None:
    words = ("verify", file, "--manifest", toml(tmp_path), "--pin", key_text(proof.accused_key), "--json")
    code, said = run(*words)
    found = json.loads(said.splitlines()[-1])
    assert (code, found["server"], found["key_is_the_pin"], found["role"]) == (0, "south", True, "B")
    assert found["evidence"] == proof.digest.hex()
    code, said = run("verify", file, "--manifest", toml(tmp_path, **{"aggregators.0.name": "east"}))
    assert code == 1
    assert "NOT of run heart-1's two servers" in said


def test_a_manifest_alone_gives_nobody_a_name(file: Path, tmp_path: Path) -> None:
    """What binds a session to two servers is public: under keys of one's own making, south is convicted of anything."""
    made_up = ThrowAwayAuthority("cardio")
    file.write_bytes(evidence_by([made_up.issue_as(name) for name in PAIR]).encoded())
    code, said = run("verify", file, "--manifest", toml(tmp_path))
    assert code == 1
    assert "as south; a manifest has no keys, anybody can have made this up" in said
    code, said = run("verify", file, "--manifest", toml(tmp_path), "--json")
    found = json.loads(said.splitlines()[-1])
    assert (code, found["server"], found["session_is_of_the_manifest"]) == (1, None, True)


def test_what_proves_nothing_is_bad_news_and_what_is_no_evidence_is_an_error(
    authority: ThrowAwayAuthority, file: Path, tmp_path: Path
) -> None:
    made_up = no_evidence_by([authority.issue_as(name) for name in PAIR])
    file.write_bytes(made_up.encoded())
    code, said = run("verify", file)
    assert code == 1
    assert "guilty" not in said
    assert "no verdict" in said
    for data in (b"", b"not at all", bytes(1 << 17)):
        file.write_bytes(data)
        assert run("verify", file)[0] == 2
    assert run("verify", tmp_path / "nowhere")[0] == 2
    assert run("verify", tmp_path)[0] == 2
    assert run("verify", "/dev/zero")[0] == 2


def test_an_operator_sees_what_waits_and_answers_it(stage: Stage, proof: Evidence) -> None:
    assert run("list", stage.node) == (0, "there is none: no server of this node's runs was caught\n")
    folder = EvidenceFolder(stage.node / "state")
    digest = folder.keep(proof.encoded())
    assert "not looked at" in run("list", stage.node)[1]
    folder.note(Held(digest, SOUTH, incident_of(proof), "2026-11-20T01:00:00+00:00", ("heart-1", "heart-2"), True))
    said = run("list", stage.node)[1]
    assert digest in said
    assert "held against heart-1, heart-2" in said
    assert "WAITS FOR AN ANSWER" in said
    code, said = run("answer", stage.node, digest[:10], "--by", "N. N.", "--reason", "south has another operator")
    assert (code, said) == (0, f"answered  {digest[:16]}…\n  hospital-a takes part in runs with south again\n")
    found = json.loads(run("list", stage.node, "--json")[1].splitlines()[-1])
    (listed,) = found["evidence"]
    assert listed["answer"]["by"] == "N. N."
    assert folder.pending() == []
    (event,) = [
        json.loads(line)["fields"]
        for line in (stage.node / "state" / "trail.jsonl").read_text().splitlines()
        if '"evidence.answered"' in line
    ]
    assert event == {
        "digest": digest, "peer": SOUTH.uri, "approved_by": "N. N.", "reason": "south has another operator"
    }  # fmt: skip


@pytest.mark.parametrize(("by", "reason"), [("", "why"), ("N. N.", ""), ("N. N.", "one\ntwo")])
def test_an_answer_nobody_stands_for_changes_nothing(stage: Stage, proof: Evidence, by: str, reason: str) -> None:
    folder = EvidenceFolder(stage.node / "state")
    digest = folder.keep(proof.encoded())
    folder.note(Held(digest, NORTH, incident_of(proof), "2026-11-20T01:00:00+00:00"))
    done = CliRunner().invoke(app, ["evidence", "answer", str(stage.node), digest, "--by", by, "--reason", reason])
    assert "one line" in str(done.exception)
    assert len(folder.pending()) == 1
