"""What containers are given, without an engine: node folders, health, the source's digest, the compose files."""

import datetime as dt
import re
from pathlib import Path

import pytest

from parley.demo import provision
from parley.demo.recipe import STUDY
from parley.federation.manifest import read_manifest
from parley.federation.names import Role
from parley.node.credentials import NodeFolder
from parley.node.node_file import AggregatorNode, CoordinatorNode, PartyNode, read_node
from tools.image import requirements

ROOT = Path(__file__).parents[2]


def test_every_node_gets_a_certificate_of_its_own_and_a_configuration_that_is_understood(federation: Path) -> None:
    keys = set()
    for name in ("lead", "north", "south", *STUDY.parties):
        node = read_node(federation / name)
        identity = NodeFolder(federation / name / "identity").load()
        assert (identity.name.name, identity.name.role) == (name, node.role)
        keys.add(identity.key)
        if isinstance(node, AggregatorNode):
            assert len(node.share) == len(STUDY.parties)
            assert not {str(address) for address in node.share} & {str(node.control), str(node.peer_listener)}
        elif isinstance(node, CoordinatorNode):
            assert [path.name for path in node.evaluation] == ["test.csv"]
        else:
            assert isinstance(node, PartyNode)
            assert [path.name for each in node.data for path in each.files] == [f"{name}.csv"]
    assert len(keys) == 7


def test_provisioning_again_changes_nothing(federation: Path) -> None:
    before = {path: path.read_bytes() for path in federation.rglob("*") if path.is_file()}
    said: list[str] = []
    provision.provision(federation, read_manifest(federation / provision.STUDY_FILE), 4, said.append)
    assert said == []
    assert before == {path: path.read_bytes() for path in federation.rglob("*") if path.is_file()}


def test_a_certificate_that_is_about_to_expire_is_renewed_under_a_running_node(
    federation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder that its container holds, by one move of the link; nobody else's is touched."""
    study = read_manifest(federation / provision.STUDY_FILE)
    folder = NodeFolder(federation / "va" / "identity")
    before, place = folder.load(), folder.path.stat().st_ino
    monkeypatch.setattr(provision, "SHORTEST_LEFT", before.expires - dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    every = provision.node_files
    monkeypatch.setattr(provision, "node_files", lambda *given: {"va": every(*given)["va"]})
    said: list[str] = []
    provision.provision(federation, study, 4, said.append)
    after = folder.load()
    assert len(said) == 1
    assert after.name == before.name
    assert after.key == before.key
    assert after.certificate != before.certificate
    assert folder.path.stat().st_ino == place
    assert (folder.path / "identities" / before.fingerprint.replace(":", "")[:32]).is_dir()
    assert not (federation / "va" / "renewal").exists()


def test_the_study_is_the_manifest_that_was_drafted(federation: Path) -> None:
    manifest = read_manifest(federation / provision.STUDY_FILE)
    assert manifest.digest == STUDY.manifest().digest
    assert [str(name) for name in manifest.identities(Role.party)]


def test_an_image_installs_what_the_package_asks_for() -> None:
    found = requirements(ROOT / "pyproject.toml", "accounting")
    assert any(each.startswith("grpcio") for each in found)
    assert any(each.startswith("scipy") for each in found)


@pytest.mark.parametrize("name", ["compose.yaml", *(f"compose.{role}.yaml" for role in Role)])
def test_a_compose_file_hardens_every_node(name: str) -> None:
    text = (ROOT / "deploy" / name).read_text()
    for line in ('user: "10001:10001"', "read_only: true", "cap_drop: [ALL]", '["no-new-privileges:true"]'):
        assert line in text, line
    # The folder: of a file that was mounted, a container never sees the one that replaces it.
    assert re.search(r"/identity:/node/identity:ro\b", text)
    assert not re.search(r"privileged|/var/run/docker.sock|network_mode: host", text)
