"""Every example runs and says what its page promises."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.result import write_model
from parley.federation.manifest import read_manifest
from parley.federation.meaning import verify
from parley.study.document import read
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"


def run(*command: str | Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("example") / "manifest.toml"
    run("parley", "manifest", "draft", EXAMPLES / "own-data" / "study.toml", "-o", path)
    return path


@pytest.mark.slow
def test_simulate() -> None:
    lines = run(sys.executable, EXAMPLES / "simulate.py").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["epsilon 0.5", "epsilon 1.0", "epsilon 2.0", "without noise"]
    assert all(float(line.split("AUC ")[1].split()[0]) > 0.7 for line in lines)  # fresh noise: seldom below 0.82


@pytest.mark.slow
def test_least_noise() -> None:
    lines = run(sys.executable, EXAMPLES / "least_noise.py").splitlines()
    assert lines[0].startswith("epsilon 0.2: noise 1.69")  # docs/privacy.md § 3, a9a, b = 100
    assert len(lines) == 4


@pytest.mark.slow
def test_check_manifest(manifest: Path) -> None:
    printed = run(sys.executable, EXAMPLES / "check_manifest.py", manifest)
    assert "claimed:  epsilon 1 at delta 1e-05" in printed
    assert "computed: epsilon 0.99" in printed
    assert "if one server lies: epsilon 2.4" in printed


def test_read_model(manifest: Path, tmp_path: Path) -> None:
    agreed = read_manifest(manifest)
    write_model(tmp_path / "model.npz", np.linspace(-1, 1, agreed.model.dimension), agreed, verify(agreed))
    printed = run(sys.executable, EXAMPLES / "read_model.py", tmp_path / "model.npz")
    assert "run heart-1: epsilon 1 at delta 1e-05, 216 rounds" in printed
    assert "prediction: " in printed


@pytest.mark.slow
def test_command_line() -> None:
    printed = run("sh", EXAMPLES / "command_line.sh")
    assert "without privacy" in printed
    assert "one aggregator that lies" in printed
    assert "Run heart-1 of federation trial" in printed
    assert "noise multiplier 11.798" in printed


def test_the_document_is_a_whole_study() -> None:
    found = read(EXAMPLES / "own-data" / "study.toml")
    assert found.manifest().releases == 216
    assert found.data is not None
    assert [name for name, _ in found.data.parties] == list(found.parties)


def test_every_example_is_in_the_index_and_run_here() -> None:
    index, tests = (EXAMPLES / "README.md").read_text(), Path(__file__).read_text()
    for path in EXAMPLES.iterdir():
        if path.name != "README.md":
            assert f"({path.name}" in index, path
        if path.suffix in (".py", ".sh"):
            assert f'"{path.name}"' in tests, path
