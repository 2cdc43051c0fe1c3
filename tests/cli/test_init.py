"""`parley init`: what it writes is read by the parsers that nodes use, and its README's commands exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from parley.algorithms.registry import named_by
from parley.cli.commands.init import write_project
from parley.cli.console import CommandError
from parley.cli.main import app
from parley.federation.manifest import read_manifest
from parley.federation.names import NodeName, Role
from parley.federation.policy import ROLES, reasons_against
from parley.federation.policy_file import read_policy
from parley.node.node_file import AggregatorNode, CoordinatorNode, PartyNode, read_node
from tests.support.command import answer, parley

NODES = {"hospital-a": PartyNode, "north": AggregatorNode, "south": AggregatorNode, "lead": CoordinatorNode}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path / "project")
    return tmp_path / "project"


def test_every_template_is_what_its_role_reads(project: Path) -> None:
    for name, kind in NODES.items():
        node = read_node(project / name)
        assert isinstance(node, kind)
        assert ROLES[type(read_policy(node.policy))] is node.role
    north, south = read_node(project / "north"), read_node(project / "south")
    assert isinstance(north, AggregatorNode)
    assert isinstance(south, AggregatorNode)
    assert (north.index, south.index) == (0, 1)
    assert (north.peer_name, south.peer_name) == ("south", "north")


def test_the_manifest_keeps_its_claim_and_every_policy_admits_it(project: Path) -> None:
    from parley.federation.meaning import verify

    manifest = read_manifest(project / "run.toml")
    named_by(manifest)
    meaning = verify(manifest)
    assert 0.98 < meaning.epsilon <= 1.0
    for name in NODES:
        node = read_node(project / name)
        assert NodeName("cardio", node.role, name) in manifest.identities(node.role)
        spent = 0.0 if node.role is Role.party else None
        assert reasons_against(meaning, NodeName("cardio", node.role, name), read_policy(node.policy), spent) == ()


def test_nothing_is_overwritten(project: Path) -> None:
    (project / "run.toml").write_text("mine")
    with pytest.raises(CommandError, match="already: nothing was written"):
        write_project(project)
    assert (project / "run.toml").read_text() == "mine"


def test_every_command_of_the_readme_exists_with_its_options(project: Path) -> None:
    commands = re.findall(r"^    parley (.+)$", (project / "README.md").read_text(), re.MULTILINE)
    assert len(commands) >= 15
    for line in commands:
        words = shlex.split(line)
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        given = {word for word in words if word.startswith("-") and len(word) > 1}
        assert given <= known, line


def test_the_readme_pins_whom_no_node_toml_names(project: Path) -> None:
    """An aggregator's names neither its coordinator nor parties, so that installing does not ask for them."""
    commands = (project / "README.md").read_text()
    for server in ("north", "south"):
        for peer in ("coordinator/lead", "party/hospital-a"):
            assert f"    parley pin add {peer} PIN --node {server}\n" in commands


@pytest.mark.slow
def test_the_readmes_first_steps_lead_to_a_node_that_the_doctor_knows(project: Path) -> None:
    ca, home = str(project / "authority"), project / "hospital-a"
    identity = str(home / "identity")
    root = answer(parley("ca", "init", "cardio", "--folder", ca, "--json"))
    asked = answer(parley("node", "request", "parley://cardio/party/hospital-a", "--folder", identity, "--json"))
    approved = str(project / "hospital-a.pem")
    approve = [
        "ca",
        "approve",
        asked["request"],
        "--fingerprint",
        asked["fingerprint"],
        "--out",
        approved,
        "--folder",
        ca,
    ]
    assert parley(*approve).returncode == 0
    install = ["node", "install", approved, "--authority", root["fingerprint"], "--folder", identity]
    assert parley(*install).returncode == 0
    (home / "records.csv").write_text("age,pressure,pain,sick\n" + "54,130,typical,1\n" * 300)
    assert answer(parley("schema", "check", str(home), "--json"))["sealed"]
    done = parley("doctor", str(home), "--manifest", str(project / "run.toml"), "--json")
    assert done.returncode == 1
    checks = {each["check"]: each for each in answer(done)["checks"]}
    failed = {name for name, each in checks.items() if each["state"] == "failed"}
    assert failed == {"coordinator lead", "aggregator north", "aggregator south", "run heart-1: pins"}
    assert checks["run heart-1: data"]["problem"] == "its columns and its count of units are those of schema.toml"


def test_the_command_lists_what_it_wrote(tmp_path: Path) -> None:
    found = answer(parley("init", str(tmp_path / "new"), "--json"))
    assert {"README.md", "run.toml", "hospital-a/node.toml", "lead/policy.toml"} <= set(found["files"])
    assert parley("init", str(tmp_path / "new")).returncode == 2
