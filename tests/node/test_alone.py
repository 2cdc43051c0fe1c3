"""One process on a folder, and one on a port: who comes second is told so in one sentence, with what to do."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import parley.coordinator.process
from parley.federation.names import Role
from parley.node.alone import alone, only_one
from parley.node.errors import NodeError
from tests.support.lead import Lead, verified


@pytest.fixture
def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lead]:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)
    made = Lead(tmp_path)
    yield made
    made.close()


def second(folder: Path, room: str = "parley.coordinator") -> tuple[int, str]:
    """Another process on that folder, by its exit code and its words."""
    done = subprocess.run([sys.executable, "-P", "-m", room, str(folder)], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_a_second_coordinator_on_a_folder_is_told_of_the_first(lead: Lead) -> None:
    with alone(lead.folder / "state", Role.coordinator):
        code, said = second(lead.folder)
    assert code == 2
    assert said.startswith("error: another process of this coordinator is running on this folder: stop it first")
    assert str(lead.folder / "state/coordinator.lock") in said
    assert len(said.splitlines()) == 1


def test_a_coordinator_whose_port_is_in_use_says_so_and_how_to_mend_it(lead: Lead) -> None:
    path = lead.folder / "node.toml"
    path.write_text(path.read_text().replace("127.0.0.1:0", f"127.0.0.1:{lead.port}"))
    code, said = second(lead.folder)
    assert code == 2
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert f"cannot listen on 127.0.0.1:{lead.port}: choose another address in node.toml, or stop what uses it" in line
    assert f"`ss -ltnp 'sport = :{lead.port}'` shows it" in line
    assert "Traceback" not in said
    assert "uncaught" not in said


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    for _ in range(2):
        with alone(tmp_path, Role.aggregator), pytest.raises(NodeError, match="another process of this aggregator"):
            only_one(tmp_path, Role.aggregator)
