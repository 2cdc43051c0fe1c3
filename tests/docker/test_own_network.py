"""A user's own package trained by a federation in containers, by changing one line of the demonstration's study."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.demo.heart_data import bundled
from parley.federation.manifest import Manifest
from tests.docker.conftest import own_network
from tests.docker.engine import COMPOSE, COORDINATOR, PARTIES, ROOT, SMALL_DISKS, Federation

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("own network")]
PACKAGE = ROOT / "examples" / "own-network" / "hospital_models"
OVERRIDE = COMPOSE.with_name("compose.module.yaml")
KIND = "torch:hospital_models.nets:build"
ALSO = ("mpmath", "markupsafe")
"""Needed by what torch needs."""


def linked(source: str, target: str) -> str:
    """A gigabyte is not copied where both are on one disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def packages(folder: Path) -> None:
    """As `pip install --target` leaves them: the user's package, and PyTorch with what it needs."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    needed = [each.split(";")[0] for each in importlib.metadata.requires("torch") or () if "extra ==" not in each]
    names = {each.split(">")[0].split("=")[0].strip().replace("-", "_") for each in needed} - {"setuptools"}
    for name in ("torch", "functorch", "torchgen", *names, *ALSO):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        place = Path(found.origin)
        if place.name == "__init__.py":
            unneeded = shutil.ignore_patterns("__pycache__", "test", "tests", "include", "*.a")
            shutil.copytree(place.parent, folder / name, copy_function=linked, ignore=unneeded)
        else:
            linked(str(place), str(folder / place.name))


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """With one line changed; `parley manifest draft` opens the module to see its size and its digest."""
    home = tmp_path_factory.mktemp("study") / "heart"
    shutil.copytree(bundled(), home)
    text = (home / "study.toml").read_text()
    assert text.count('kind = "logistic"') == 1
    (home / "study.toml").write_text(text.replace('kind = "logistic"', f'kind = "{KIND}"'))
    parley = Path(sys.executable).with_name("parley")
    command: list[str | Path] = [parley, "manifest", "draft", home / "study.toml", "-o", home / "run"]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Manifest.from_toml((home / "run").read_text())


@pytest.fixture(scope="module")
def own(images: None, client: object, drafted: Manifest) -> Iterator[Federation]:
    """A federation whose hospitals and coordinator allow the package by name and digest."""
    pytest.importorskip("torch")
    project, subnets = own_network()
    first, _, last = subnets.rpartition(".")
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as name:
        folder, installed = Path(name) / "federation", Path(name) / "packages"
        for each in (Path(name), folder, installed):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        packages(installed)
        files = (COMPOSE, SMALL_DISKS, OVERRIDE)
        made = Federation(client, folder, f"{project}own", f"{first}.{int(last) + 8}", files, "--runs 4")  # type: ignore[arg-type]
        try:
            os.environ["PARLEY_PACKAGES"] = str(installed)
            made.compose("run", "--rm", "provision")
            allow(folder, drafted)
            made.up()
            yield made
        finally:
            made.down()
            del os.environ["PARLEY_PACKAGES"]


def allow(folder: Path, manifest: Manifest) -> None:
    """As each operator writes it by hand."""
    code = f'[code]\n"{KIND}" = "{manifest.model.options.body["digest"]}"\n'
    for policy in folder.glob("*/policy.toml"):
        text = policy.read_text()
        size = next(line for line in text.splitlines() if line.startswith("largest_dimension"))
        runs_models = policy.parent.name in (*PARTIES, COORDINATOR)
        policy.write_text(text.replace(size, "largest_dimension = 1000") + code * runs_models)


def test_a_users_package_is_trained_by_hospitals_in_containers(own: Federation, drafted: Manifest) -> None:
    from parley.federation.toml_text import toml_text

    own.submit(toml_text(drafted.as_json()))
    state, _, outcome = own.wait_state(drafted.run, ("finished", "failed", "stalled", "refused"))
    assert state == "finished", f"{outcome} {own.logs('cleveland')[-1500:]}"
    own.run(COORDINATOR, "test", "-s", f"/node/models/{drafted.run}.npz")
    for party in PARTIES:
        # Nobody's code was imported by the party's own process.
        loaded = own.run(party, "sh", "-c", "cat /proc/1/maps")
        assert "torch" not in loaded
        assert "grpc" in loaded
