"""One federation in containers for all tests of this folder; skipped only where there is no Docker engine at all.

Where two workers share the tests (`make test-docker`), each has a federation of its own: the faults of one node are a
group, everything else is another, which comes first.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("docker", reason="the Docker SDK is not installed: pip install docker")

import docker

from tests.docker.engine import PROJECT, SUBNETS, Federation, build_images

PROVISION = "--run first --deadline 60 --runs 100"


@pytest.fixture(scope="session")
def client() -> "docker.DockerClient":
    try:
        found = docker.from_env(timeout=120)
        found.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"there is no Docker engine on this machine: {error}")
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has them all, but for those that are in a group of their own."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("docker"))


def own_network() -> tuple[str, str]:
    """Project and subnets that no other worker has."""
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first, _, last = SUBNETS.rpartition(".")
    return f"{PROJECT}{place or ''}", f"{first}.{int(last) + place}"


@pytest.fixture(scope="session")
def images(client: "docker.DockerClient") -> None:
    """Built by whoever comes first; others wait, and find them."""
    with (Path(tempfile.gettempdir()) / "parley-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_images(client)


@pytest.fixture(scope="session")
def federation(client: "docker.DockerClient", images: None) -> Iterator[Federation]:
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Federation(client, Path(folder), *own_network(), provision=PROVISION)
        try:
            made.up()
            yield made
        finally:
            made.down()
