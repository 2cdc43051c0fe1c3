"""compose.yaml of one's own node: read by docker-compose where it is installed, and safe whatever a file is called."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from parley.cli.console import CommandError
from parley.cli.containers import IMAGE_USER, SECRETS, compose_text, owner_of_new, prepare
from parley.federation.names import Role
from parley.node.invitation import Invitation
from parley.node.node_file import Address
from tests.support.invited import Invited

COMPOSE = shutil.which("docker-compose")


def config(text: str, folder: Path) -> str:
    """As docker-compose understands it."""
    folder.mkdir(exist_ok=True)
    (folder / "compose.yaml").write_text(text)
    done = subprocess.run(
        [str(COMPOSE), "-f", str(folder / "compose.yaml"), "config"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def invited(tmp_path: Path) -> Invited:
    return Invited(tmp_path)


def of(invited: Invited, name: str, *data: Path) -> str:
    return compose_text(invited.invitation(name), invited.homes / name, data)


def test_a_party_mounts_its_own_and_publishes_nothing(invited: Invited) -> None:
    text = of(invited, "hospital-a", invited.homes / "records.csv")
    assert 'source: "../records.csv", target: "/node/data/records.csv", read_only: true' in text
    assert "ports:" not in text
    assert "network_mode: none" in text
    assert all(f"{name}: {{file: ./identity/" in text for name in SECRETS)
    assert "docker-compose run --rm party schema check /node" in text


def test_servers_publish_the_ports_that_others_dial(invited: Invited) -> None:
    assert '"${PARLEY_SHARE:-0.0.0.0:7401}:7401"' in of(invited, "north")
    assert "PARLEY_PEER" not in of(invited, "north")
    assert '"${PARLEY_PEER:-0.0.0.0:7403}:7403"' in of(invited, "south")
    lead = of(invited, "lead")
    assert '"${PARLEY_PARTIES:-0.0.0.0:7400}:7400"' in lead
    assert "parley run /node/runs/run.toml" in lead


def test_a_files_name_is_data_in_the_document(invited: Invited) -> None:
    odd = 'a"b: ${HOME} $(id) #{x}\n.csv'
    text = of(invited, "hospital-a", invited.homes / odd)
    line = next(line for line in text.splitlines() if "/node/data/" in line)
    target = json.loads(line.split("target: ")[1].rsplit(", read_only", 1)[0])
    assert target == f"/node/data/{odd}".replace("$", "$$")


def test_a_trial_on_one_machine_and_two_files_of_one_name_are_refused(invited: Invited, tmp_path: Path) -> None:
    first = invited.invitation("north")
    local = tuple(
        replace(each, addresses={kind: Address("127.0.0.1", at.port) for kind, at in each.addresses.items()})
        for each in first.members
    )
    with pytest.raises(CommandError, match="on one machine"):
        compose_text(replace(first, members=local), tmp_path / "north", [])
    with pytest.raises(CommandError, match="have one name"):
        of(invited, "hospital-a", tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv")


def test_the_container_never_runs_as_root(invited: Invited, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.chown", lambda path, uid, gid, **_: given.append((uid, gid)))
    assert owner_of_new() == (IMAGE_USER, IMAGE_USER)
    assert f'user: "{IMAGE_USER}:{IMAGE_USER}"' in of(invited, "north")
    (tmp_path / "x").mkdir()
    prepare(tmp_path / "x", Role.coordinator)
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["models", "runs", "state"]
    assert set(given) == {(IMAGE_USER, IMAGE_USER)}
    assert len(given) == 4


@pytest.mark.skipif(COMPOSE is None, reason="no docker-compose on this machine")
@pytest.mark.parametrize("name", ["hospital-a", "north", "south", "lead"])
def test_docker_compose_understands_it(invited: Invited, name: str) -> None:
    data = [invited.homes / "rec $ords.csv"] if name == "hospital-a" else []
    home = invited.homes / name
    found = config(of(invited, name, *data), home)
    role = Invitation.parse(invited.invitation_file(name).read_bytes()).node.role.value
    assert f"  {role}:\n" in found
    assert f"image: parley/{'party' if role == 'party' else 'server'}\n" in found
    services = yaml.safe_load(found)["services"].values()  # lines are folded where a path is long
    volumes = [each for service in services for each in service.get("volumes", [])]
    sources = {each["source"] for each in volumes if each["source"].startswith("/")}
    assert {str(home / "state"), str(home / "node.toml")} <= sources
    outside = [each for each in sources if not Path(each).is_relative_to(home)]
    assert outside == [str(each).replace("$", "$$") for each in data]
