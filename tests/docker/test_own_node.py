"""One's own node from the compose file that `parley join --containers` writes: joined in its image, and started."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from parley.cli.containers import IMAGE_USER
from parley.federation.names import NodeName
from parley.node.invitation import Members, Request
from parley.node.membership import accept, write_members
from tests.docker.engine import IMAGES, RUN_SECONDS, wait
from tests.support.invited import Invited, node

pytestmark = pytest.mark.docker
OTHERS = {"hospital-a": ("lead", "north", "hospital-b"), "south": ("lead", "north", "hospital-b")}


class Own:
    """Folders of one institution with records, and of one that runs an aggregator."""

    def __init__(self, client: "docker.DockerClient", folder: Path) -> None:
        self.client, self.folder = client, folder / "institution"
        (folder / "lead").mkdir()
        self.invited = Invited(folder / "lead")
        self.folder.mkdir()
        for name in OTHERS:  # as they came by mail
            (self.folder / f"{name}.invitation").write_bytes(self.invited.invitation_file(name).read_bytes())
        (self.folder / "records.csv").write_text("age,sick\n" + "54,1\n61,0\n" * 150)
        self.root("chown", "-R", f"{IMAGE_USER}:{IMAGE_USER}", "/join")

    def root(self, *words: str) -> None:
        """As the person whose machine it is."""
        self.client.containers.run(
            IMAGES["party"], list(words[1:]), entrypoint=words[0], user="0:0", remove=True, network_mode="none",
            volumes={str(self.folder): {"bind": "/join"}},
        )  # fmt: skip

    def join(self, name: str, *words: str) -> None:
        """docs/containers.md, "Your own node": with nothing but the engine."""
        image = IMAGES["party" if name.startswith("hospital") else "server"]
        self.client.containers.run(
            image, ["join", f"{name}.invitation", "--containers", *words], user=f"{IMAGE_USER}", remove=True,
            network_mode="none", volumes={str(self.folder): {"bind": "/join"}}, working_dir="/join",
        )  # fmt: skip

    def compose(self, name: str, *words: str) -> str:
        """In the node's folder, as the head of its file says."""
        any_port = {f"PARLEY_{each}": "127.0.0.1:0" for each in ("SHARE", "CONTROL", "PEER", "PARTIES")}
        images = {f"PARLEY_{kind.upper()}_IMAGE": IMAGES[kind] for kind in ("party", "server")}
        command = ["docker-compose", "-p", f"parleyown{name}", "-f", str(self.folder / name / "compose.yaml"), *words]
        done = subprocess.run(
            command, env={**os.environ, **any_port, **images}, capture_output=True, text=True, check=False,
            timeout=RUN_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-2500:]
        return done.stdout

    def remove(self) -> None:
        for name in OTHERS:
            if (self.folder / name / "compose.yaml").exists():
                self.compose(name, "down", "--volumes", "--timeout", "1")
        self.root("sh", "-c", "rm -rf /join/*")


@pytest.fixture
def own(client: "docker.DockerClient", images: None) -> Iterator[Own]:
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Own(client, Path(folder))
        try:
            yield made
        finally:
            made.remove()


def test_a_party_and_an_aggregator_join_and_run_from_their_own_compose_files(own: Own) -> None:
    own.join("hospital-a", "--data", "records.csv", "--organisation", "St. Anna")
    own.join("south")
    for name in ("lead", "north", "hospital-b"):
        own.invited.accept(own.invited.begin(name))
    for name in OTHERS:
        request = Request.parse((own.folder / name / f"{name}.request").read_bytes())
        accept(own.invited.study, request, own.invited.authority, said(request))
    listed = write_members(own.invited.study)
    members = Members.parse(listed.read_bytes())
    for name in OTHERS:
        key = own.folder / name / "identity" / "pending" / "node.key"
        assert (key.stat().st_uid, key.stat().st_mode & 0o777) == (IMAGE_USER, 0o600)
        (own.folder / name / listed.name).write_bytes(listed.read_bytes())
        numbers = [
            word
            for peer in ("north", "south")
            for word in ("--number", f"{peer}={members.number_of(node(peer))}")
            if peer != name
        ]
        joined = own.compose(name, "run", "--rm", "-T", "setup", "join", f"{name}/{listed.name}", name, *numbers)
        assert "certificate installed" in joined
    assert "sealed" in own.compose("hospital-a", "run", "--rm", "-T", "party", "schema", "check", "/node")
    for name, service in (("hospital-a", "party"), ("south", "aggregator")):
        own.compose(name, "up", "-d", "--no-build")
        (mine,) = own.client.containers.list(filters={"label": f"com.docker.compose.project=parleyown{name}"})
        wait(partial(healthy, mine), RUN_SECONDS, name)
        assert mine.attrs["Config"]["User"] == f"{IMAGE_USER}:{IMAGE_USER}"
        assert mine.attrs["HostConfig"]["ReadonlyRootfs"]
        published = {port for port, at in (mine.attrs["NetworkSettings"]["Ports"] or {}).items() if at}
        assert published == (set() if service == "party" else {"7401/tcp", "7402/tcp", "7403/tcp"})
        written = [each["Destination"] for each in mine.attrs["Mounts"] if each["RW"]]
        assert written == ["/node/state"]
        shown = own.compose(name, "exec", "-T", service, "parley", "node", "show", "/node")
        assert node(name).uri in shown


def said(request: Request) -> Callable[[NodeName], str]:
    """By telephone."""
    return lambda _: request.number


def healthy(container: Container) -> bool:
    container.reload()
    assert container.status == "running", container.logs()[-2000:]
    return bool(container.attrs["State"]["Health"]["Status"] == "healthy")
