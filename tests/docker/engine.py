"""A federation in containers for tests: docker-compose brings it up, the Docker SDK looks at it and breaks it.

Its project, its networks and its folder are its own, so that a demonstration on the same machine is left alone.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container

from parley.node.software import IMAGES as ROOMS_OF
from parley.node.software import source_digest
from tests.support.until import GIVE_UP_SECONDS

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose.yaml"
SMALL_DISKS = Path(__file__).with_name("small-disks.yaml")
PARTIES = ("cleveland", "hungarian", "switzerland", "va")
AGGREGATORS = ("north", "south")
COORDINATOR = "lead"
NODES = (COORDINATOR, *AGGREGATORS, *PARTIES)
IMAGES = {each: os.environ.get(f"PARLEY_{each.upper()}_IMAGE", f"parley/{each}") for each in ROOMS_OF}
PROJECT, SUBNETS = os.environ.get("PARLEY_TEST_NETWORK", "parleytest 10.213.8").split()
"""Others, where somebody else tests on the same engine."""
LABEL = "parley.source-digest"
RUN_SECONDS = 900.0
"""Until a run of seven containers on a busy machine has surely come to where it is waited for."""
FREEZE_ATTEMPTS = 20
READ = """
import json, sqlite3, sys
database = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True, timeout=10)
shown = lambda value: value.hex() if isinstance(value, bytes) else value
print(json.dumps([[shown(each) for each in row] for row in database.execute(sys.argv[2])]))
"""


def build_images(client: docker.DockerClient) -> None:
    """All images, unless those that are there are of this very source."""
    digests = {target: source_digest(rooms) for target, rooms in ROOMS_OF.items()}
    missing = [target for target, name in IMAGES.items() if _label_of(client, name) != digests[target]]
    if not missing:
        return
    services = {"party": "cleveland", "server": "lead", "demo": "provision"}
    command = ["docker-compose", "-f", str(COMPOSE), "build", *(services[target] for target in missing)]
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    labels = {f"PARLEY_{target.upper()}_DIGEST": digest for target, digest in digests.items()}
    environment = {**os.environ, **labels, "PARLEY_VERSION": version[1]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def _label_of(client: docker.DockerClient, name: str) -> str | None:
    try:
        label: str | None = client.images.get(name).labels.get(LABEL)
    except docker.errors.ImageNotFound:
        return None
    return label


def wait(what: Callable[[], Any], seconds: float, message: str = "") -> Any:
    """What it returned, as soon as that is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {message}")


@dataclass
class Federation:
    """One project of docker-compose."""

    client: docker.DockerClient
    folder: Path
    project: str
    subnets: str
    files: tuple[Path, ...] = (COMPOSE, SMALL_DISKS)
    provision: str = ""
    cut: dict[tuple[str, str], list[tuple[str, str, list[str]]]] = field(default_factory=dict)
    """Networks that a node was taken from, by node and reason: name, address, aliases."""

    def compose(self, *words: str, check: bool = True) -> str:
        command = ["docker-compose", "-p", self.project]
        for each in self.files:
            command += ["-f", str(each)]
        done = subprocess.run([*command, *words], env=self.environment(), capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout

    def environment(self) -> dict[str, str]:
        """What deploy/compose.yaml and deploy/compose-demo.sh ask for."""
        return {
            **os.environ,
            "COMPOSE_PROJECT_NAME": self.project,
            "PARLEY_FEDERATION": str(self.folder),
            "PARLEY_SUBNETS": self.subnets,
            "PARLEY_DASHBOARD_PORT": "0",
            "PARLEY_PROVISION": f"provision /federation --owner 10001 {self.provision}",
        }

    def up(self) -> None:
        self.compose("run", "--rm", "provision")
        if SMALL_DISKS in self.files:  # they are in memory, and forgotten while nobody holds them
            self.compose("up", "-d", "--no-build", "--no-deps", "holder")
        for hospital in PARTIES:
            self.compose("run", "--rm", "--no-deps", hospital, "schema", "check", "/node")
        self.compose("up", "-d", "--no-build")
        for name in NODES:
            self.wait_ready(name)

    def down(self) -> None:
        for name in NODES:
            if found := self.find(name):
                found.remove(force=True)
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "1", check=False)
        self.client.containers.run(
            IMAGES["demo"],
            "provision /federation --remove",
            user="0:0",
            remove=True,
            network_mode="none",
            volumes={str(self.folder): {"bind": "/federation"}},
        )

    # ------------------------------------------------------------ containers

    def find(self, name: str) -> Container | None:
        labels = [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={name}"]
        found = self.client.containers.list(all=True, filters={"label": labels})
        return found[0] if found else None

    def container(self, name: str) -> Container:
        found = self.find(name)
        assert found is not None, name
        return found

    def run(self, name: str, *command: str, stdin: str | None = None, check: bool = True) -> str:
        """A command inside of a container, as its user; standard output."""
        words = ["docker", "exec", "-i", self.container(name).id or "", *command]
        done = subprocess.run(
            words, input=stdin or "", capture_output=True, text=True, check=False, timeout=GIVE_UP_SECONDS
        )
        assert not check or done.returncode == 0, (
            f"{name}: {' '.join(command)}: {done.stdout[-500:]}{done.stderr[-1500:]}"
        )
        return done.stdout

    def healthy(self, name: str) -> bool:
        found = self.container(name)
        if found.status != "running":
            return False
        answer = found.exec_run(["python", "-P", "-m", "parley.node.health", "/node"])
        return bool(answer.exit_code == 0)

    def wait_ready(self, name: str, seconds: float = GIVE_UP_SECONDS) -> None:
        wait(lambda: self.healthy(name), seconds, f"{name} is not healthy: {self.logs(name)[-1500:]}")

    def logs(self, name: str, since: float = 0.0) -> str:
        text: bytes = self.container(name).logs(since=since) if since else self.container(name).logs()
        return text.decode(errors="replace")

    # ------------------------------------------------------------ runs and books

    def query(self, name: str, database: str, sql: str) -> list[list[Any]]:
        """Rows of a node's books, also while it is down; bytes in hexadecimal."""
        path = f"/state/{name}/{database}"
        found: list[list[Any]] = json.loads(self.run("holder", "python", "-c", READ, path, sql))
        return found

    def state(self, run: str) -> tuple[str, int, str]:
        """State, the round that waits, outcome."""
        rows = self.query(COORDINATOR, "runs.sqlite", f"SELECT state, round, outcome FROM runs WHERE run = '{run}'")
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else ("unknown", 0, "")

    def submit(self, text: str) -> None:
        """A manifest, as TOML."""
        command = "cat > /tmp/run.toml && parley run /tmp/run.toml --node /node --detach"
        self.run(COORDINATOR, "sh", "-c", command, stdin=text)

    def wait_state(self, run: str, states: Iterable[str], seconds: float = RUN_SECONDS) -> tuple[str, int, str]:
        wanted = set(states)

        def reached() -> tuple[str, int, str] | None:
            found = self.state(run)
            return found if found[0] in wanted else None

        answer: tuple[str, int, str] = wait(reached, seconds, f"{run} is {self.state(run)}, not {wanted}")
        return answer

    # ------------------------------------------------------------ what breaks, and how it is mended

    def pause(self, name: str) -> None:
        """A busy machine's kernel does not freeze a process at the first try."""
        for attempt in range(FREEZE_ATTEMPTS):
            try:
                self.container(name).pause()
                return
            except docker.errors.APIError as error:
                if "unable to freeze" not in str(error) or attempt + 1 == FREEZE_ATTEMPTS:
                    raise
                time.sleep(0.2)

    def disconnect(self, name: str, networks: Iterable[str] | None = None, why: str = "broken") -> None:
        """From these networks, such as `north-south`, or from all."""
        container = self.container(name)
        container.reload()
        for full, settings in dict(container.attrs["NetworkSettings"]["Networks"]).items():
            short = full.removeprefix(f"{self.project}_")
            if networks is not None and short not in networks:
                continue
            aliases = [each for each in settings["Aliases"] or [] if not (container.id or "").startswith(each)]
            self.cut.setdefault((name, why), []).append((full, settings["IPAddress"], aliases))
            self.client.networks.get(full).disconnect(container)

    def connect(self, name: str, why: str = "broken") -> None:
        """To all that it was taken from, with the address and the names that it had."""
        for full, address, aliases in self.cut.pop((name, why), []):
            self.client.networks.get(full).connect(self.container(name), ipv4_address=address or None, aliases=aliases)

    def fill(self, name: str) -> None:
        """Its disk, to the last byte."""
        self.run("holder", "sh", "-c", f"cat /dev/zero > /state/{name}/filling 2>/dev/null || true")

    def mend(self) -> None:
        """Everything that a test left broken."""
        for name in NODES:
            container = self.container(name)
            if container.status == "paused":
                container.unpause()
            elif container.status != "running":
                container.start()
            self.free(name)
        for name, why in list(self.cut):
            self.connect(name, why)
        for name in NODES:
            self.wait_ready(name)

    def free(self, name: str) -> None:
        self.run("holder", "rm", "-f", f"/state/{name}/filling")
