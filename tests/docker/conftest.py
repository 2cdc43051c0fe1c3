"""One federation in containers for all tests of this folder; skipped only where there is no Docker engine at all."""

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


@pytest.fixture(scope="session")
def images(client: "docker.DockerClient") -> None:
    build_images(client)


@pytest.fixture(scope="session")
def federation(client: "docker.DockerClient", images: None) -> Iterator[Federation]:
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Federation(client, Path(folder), PROJECT, SUBNETS, provision=PROVISION)
        try:
            made.up()
            yield made
        finally:
            made.down()
