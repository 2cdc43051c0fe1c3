"""`parley aggregator`: approval by hand and status, beside a server's folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import documents
from tests.support.servers import Federation
from tests.support.until import GIVE_UP_SECONDS


def parley(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "parley.cli.main", "aggregator", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, check=False)


def answer(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def toml(body: dict[str, Any]) -> str:
    """Enough of TOML for a manifest: tables inline."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {text(each)}" for key, each in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(text(each) for each in value) + "]"
        return json.dumps(value)

    return "\n".join(f"{key} = {text(value)}" for key, value in body.items()) + "\n"


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


@pytest.mark.slow
def test_a_person_approves_what_the_policy_does_not_and_status_shows_it(federation: Federation, tmp_path: Path) -> None:
    changes = {"mechanism.steps": 3, "privacy.epsilon": 6.0}
    manifest, path = documents.manifest(**changes), tmp_path / "run.toml"
    path.write_text(toml(documents.body(**changes)))
    node = federation.servers[0].path
    federation.configure(0, node, peer=1)
    (node / "policy.toml").write_text(documents.AGGREGATOR_POLICY.replace("largest_rounds = 40", "largest_rounds = 2"))
    digest = manifest.digest.hex()
    wrong = parley("approve", str(node), str(path), "--digest", "00" * 32, "--by", "N. N.")
    assert wrong.returncode == 2
    assert "digest" in wrong.stderr
    done = parley("approve", str(node), str(path), "--digest", digest, "--by", "N. N.", "--json")
    assert done.returncode == 0, done.stderr
    assert answer(done)["admitted"]
    assert "largest_rounds" in answer(done)["overridden"][0]
    early = parley("status", str(node))
    assert early.returncode == 2
    assert "aggregator run" in early.stderr
    for server in federation.servers[::-1]:  # B first
        server.start()
        if server.role == 1:
            federation.configure(0, node, server.ports["peer"])
    try:
        assert federation.propose(0, manifest).admitted
        status = answer(parley("status", str(node), "--json"))
        unknown = parley("withdraw", str(node), "heart-2", "--by", "N. N.")
        assert unknown.returncode == 2
        assert "heart-1" in unknown.stderr
        assert answer(parley("withdraw", str(node), "heart-1", "--by", "N. N.", "--json"))["withdrawn"]
        (refused,) = federation.open(manifest, 0, roles=[0])
        assert refused.name == "not_admitted"
        assert answer(parley("status", str(node), "--json"))["runs"][0]["state"] == "withdrawn"
        events = [json.loads(line)["event"] for line in (node / "state" / "trail.jsonl").read_text().splitlines()]
        assert {"run.approved", "run.withdrawn"} <= set(events)
    finally:
        federation.close()
    assert [(run["run"], run["state"], run["opened"], run["how"]) for run in status["runs"]] == [
        ("heart-1", "open", 0, "hand")
    ]


def test_what_no_person_can_mend_is_refused_by_exit_code(federation: Federation, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(toml(documents.body()))
    manifest = documents.manifest()
    node = federation.servers[1].path  # B is told to be A
    text = (node / "node.toml").read_text().replace('peer = "127.0.0.1:0"\n', "")
    (node / "node.toml").write_text(text.replace('name = "north"', 'name = "north"\naddress = "127.0.0.1:1"'))
    done = parley("approve", str(node), str(path), "--digest", manifest.digest.hex(), "--by", "N. N.", "--json")
    assert done.returncode == 1, done.stderr
    assert "exchange" in answer(done)["reasons"][0]
