"""The wheel without kernels: what runs from it, what is refused there, and when pip takes it.

It is installed in an environment of its own; what parley needs comes from this one, so that no index is asked. Wheels
with kernels are in test_release.py.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.support.one_study import ROOT, require_same, said, written

from parley.bench.train_data import study, write_party
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from tools.wheels import build_wheel, platforms

MISSING = "the compiled kernels that make noise are missing ("
INSTALL = "manylinux_2_28_x86_64.whl over this: pip install --force-reinstall --no-deps FILE, see docs/install.md"
PARTIES, DIMENSION, ROUNDS = 3, 40, 3
SUMS = """
import json
import numpy as np
from parley.mpc.clip_sums import builds, clip_sums
rng = np.random.default_rng(3)
fresh, before = (rng.normal(0, 1, (200, 333)).astype(np.float32) for _ in range(2))
total = np.zeros(333, np.int64)
clip_sums(
    fresh, before, np.arange(200) % 7 != 0, gradient_weight=0.3, gradient_norm=1.0, difference_weight=0.7,
    difference_norm=2.0, step=1e-5, limit=1 << 20, total=total,
)
print(json.dumps({"builds": builds(), "total": total.tolist()}))
"""


def test_what_builds_a_wheel_is_of_the_versions_that_a_build_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["build-system"]["requires"]) < set(project["project"]["optional-dependencies"]["wheels"])


def test_every_platform_has_a_tag_of_its_own() -> None:
    assert platforms(ROOT) == {
        "linux-x86_64": "manylinux_2_28_x86_64",
        "linux-aarch64": "manylinux_2_28_aarch64",
        "macos-arm64": "macosx_11_0_arm64",
        "macos-x86_64": "macosx_11_0_x86_64",
        "any": "any",
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheels"), "any")


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fresh environment, with that wheel."""
    home = tmp_path_factory.mktemp("pure") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    found = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(found), "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*install, str(wheel)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # whose own .pth files are not read
    return found


def call(python: Path, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"MPLBACKEND": "Agg"}
    return subprocess.run(
        [str(python), "-P", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_it_is_for_any_platform_and_holds_nothing_compiled(wheel: Path, python: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        text = archive.read(metadata).decode()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true\n" in text
    assert "Tag: py3-none-any\n" in text
    assert not [name for name in names if name.endswith((".so", ".dylib", ".pyd"))]
    done = call(python, "-c", "import parley.mpc, parley.study; print(*parley.mpc.__path__)", cwd=tmp_path)
    assert Path(done.stdout.strip()).is_relative_to(python.parents[1]), done.stderr


@pytest.mark.slow
def test_a_study_plans_trains_saves_and_predicts_the_same(python: Path, tmp_path: Path) -> None:
    """Accounting, simulation, model file and predictions; an image's waves are NumPy's there, too."""
    folder = written(tmp_path)
    found = said(call(python, "script.py", cwd=folder))
    assert found["features"] == []
    require_same(found, said(call(Path(sys.executable), "script.py", cwd=folder)), exactly=True)


@pytest.mark.slow
def test_clipped_sums_are_the_compiled_ones(python: Path, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    pure, compiled = (json.loads(call(each, "sums.py", cwd=tmp_path).stdout) for each in (python, Path(sys.executable)))
    assert pure["builds"] == []
    assert compiled["builds"]
    assert pure["total"] == compiled["total"]


@pytest.mark.slow
def test_parties_without_kernels_train_with_servers_that_have_them(python: Path, tmp_path: Path) -> None:
    """A whole run of real processes: their sums, shares and accounting are what the servers and coordinator expect."""
    manifest = study("pure", PARTIES, DIMENSION, ROUNDS)
    data = {}
    for place in range(PARTIES):
        path = tmp_path / f"party-{place + 1}.libsvm"
        write_party(path, place, DIMENSION)
        data[f"party-{place + 1}"] = [path]
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    with LocalFederation(tmp_path / "nodes", manifest, data, budget=(400.0, 1e-3)) as federation:
        for node in federation.parties:
            policy = node.folder / "policy.toml"
            policy.write_text(policy.read_text().replace("epsilon_total = 4.0", "epsilon_total = 400.0"))
        for node in federation.nodes.values():
            node.start({"PYTHONPATH": str(site)} if node in federation.parties else None)
        for node in federation.nodes.values():
            node.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        assert row.state is State.finished, (row.outcome, [node.tail() for node in federation.nodes.values()])
        assert row.round == manifest.releases
        server = federation.aggregators[0]
        server.stop()
        for words in (("-m", "parley.aggregator", str(server.folder)), ("-m", "parley.cli.main", "demo")):
            done = call(python, *words, cwd=tmp_path)
            assert done.returncode == 2, done.stderr
            assert MISSING in done.stderr
            assert INSTALL in done.stderr.replace("\n", " ")
            assert "Traceback" not in done.stderr
        assert not (tmp_path / "parley-demo").exists()
        done = call(python, "-m", "parley.cli.main", "doctor", str(server.folder), cwd=tmp_path)
        assert done.returncode == 1
        assert MISSING in done.stdout


@pytest.mark.slow
def test_pip_takes_it_only_where_no_other_fits(wheel: Path, tmp_path: Path) -> None:
    """Of a release's files in one folder."""
    folder = tmp_path / "files"
    folder.mkdir()
    for tag in platforms(ROOT).values():
        (folder / wheel.name.replace("-any.", f"-{tag}.")).write_bytes(wheel.read_bytes())
    for asked, taken in {
        "manylinux_2_28_x86_64": "manylinux_2_28_x86_64",
        "manylinux_2_28_aarch64": "manylinux_2_28_aarch64",
        "manylinux_2_28_riscv64": "any",
        "manylinux_2_17_x86_64": "any",  # an older glibc
        "musllinux_1_2_x86_64": "any",
        "macosx_14_0_arm64": "macosx_11_0_arm64",
        "macosx_12_0_x86_64": "macosx_11_0_x86_64",
        "macosx_10_15_x86_64": "any",
        "win_amd64": "any",
    }.items():
        got = tmp_path / asked
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-index", "--no-deps", "--only-binary=:all:"]
        command += ["--find-links", str(folder), "--dest", str(got), "--platform", asked, "parley-federation"]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PIP_FIND_LINKS": ""})
        (found,) = got.iterdir()
        assert found.name.endswith(f"-{taken}.whl"), asked
