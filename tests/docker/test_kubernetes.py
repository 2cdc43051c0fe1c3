"""What a pod of deploy/kubernetes does before its node starts, in the node's own image; no cluster runs it."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import NodeFolder
from tests.docker.engine import IMAGES, ROOT

pytestmark = pytest.mark.docker
BASE = ROOT / "deploy" / "kubernetes" / "base" / "node" / "statefulset.yaml"


def test_the_files_of_a_secret_become_a_nodes_identity(images: None, tmp_path: Path) -> None:
    """Kubernetes gives them to root, and to the pod's group: a key that parley itself would refuse."""
    folder = NodeFolder(tmp_path / "identity")
    ThrowAwayAuthority("cardio").install(folder.path, NodeName("cardio", Role.party, "hospital-a"))
    given = tmp_path / "given"
    given.mkdir()
    for path in (*(folder.current / name for name in ("node.key", "node.crt", "authority.crt")), folder.pin_file):
        copy = given / path.name
        copy.write_bytes(path.read_bytes())
        os.chown(copy, 0, 10001)
        copy.chmod(0o440)
    for each in (tmp_path, given):
        each.chmod(0o755)
    spec = yaml.safe_load(BASE.read_text())["spec"]["template"]["spec"]
    (prepare,) = spec["initContainers"]
    shell, options, script = prepare["command"]
    command = [
        "docker",
        "run",
        "--rm",
        "--user",
        "10001:10001",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--network",
        "none",
    ]
    command += ["--security-opt", "no-new-privileges", "-v", f"{given}:/given:ro", "--entrypoint", shell]
    command += ["--tmpfs", "/run/secrets:mode=1777", "--tmpfs", "/volume:mode=0775,gid=10001", IMAGES["party"]]
    shown = "stat -c '%a %n' /run/secrets/* /volume/*; parley node show --folder /node/identity"
    done = subprocess.run([*command, options, f"{script}; {shown}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "600 /run/secrets/node.key\n" in done.stdout
    assert "700 /volume/state\n" in done.stdout
    assert "parley://cardio/party/hospital-a" in done.stdout
