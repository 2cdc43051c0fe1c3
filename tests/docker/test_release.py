"""The image of a release: its archive loads, and its bill of materials is of what is in it."""

import json
import tarfile
import tomllib
from pathlib import Path

import docker
import pytest

from parley.node.software import IMAGES, source_digest
from tests.docker.engine import LABEL, ROOT
from tools.release import Tag, build_image

pytestmark = pytest.mark.docker
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_an_image_is_released_with_its_bill_of_materials(
    client: "docker.DockerClient", images: None, tmp_path: Path
) -> None:
    """Of this folder as it is; tests/deploy/test_release.py makes releases of tags."""
    build_image(ROOT, Tag(f"v{VERSION}", VERSION, "0" * 40, 1_800_000_000), "party", tmp_path)
    name = f"parley/party:{VERSION}"
    try:
        built = client.images.get(name)
        assert built.labels[LABEL] == source_digest(IMAGES["party"])
        with tarfile.open(tmp_path / f"parley-party-{VERSION}.tar.gz") as archive:
            manifest = archive.extractfile("manifest.json")
            assert manifest is not None
            assert json.load(manifest)[0]["RepoTags"] == [name]
        told = json.loads((tmp_path / f"parley-party-{VERSION}.cdx.json").read_text())
        (digest,) = told["metadata"]["component"]["hashes"]
        assert f"sha256:{digest['content']}" == built.id
        components = {each["purl"].split("@")[0] for each in told["components"]}
        assert {"pkg:pypi/numpy", "pkg:pypi/scipy", "pkg:deb/debian/libc6", "pkg:generic/python"} <= components
        assert not components & {"pkg:pypi/starlette", "pkg:pypi/pip", "pkg:pypi/pytest"}
    finally:
        client.images.remove(name)
