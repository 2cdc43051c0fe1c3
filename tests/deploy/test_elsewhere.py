"""A study on a machine that is no Linux: nothing on its way asks for what only Linux has. Nodes are refused there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.elsewhere import site

ROOT = Path(__file__).parents[2]
OWN = ROOT / "examples" / "own-data"
RECORDS = ROOT / "deploy" / "parley" / "demo" / "data" / "heart_disease"
Run = Callable[..., "subprocess.CompletedProcess[str]"]
FROM_PYTHON = """
import sys
from parley import study

assert sys.platform == "darwin"
s = study.read("study.toml")
print(s.plan())
result = s.simulate(seeds=2, workers=2)
print(result)
result.plot("curve.svg")
result.save("model.npz")
print(study.load("model.npz").predict_proba("test.csv").shape)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    for path in [*OWN.glob("*.toml"), *RECORDS.glob("*.csv")]:
        shutil.copy(path, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(site(tmp_path / "site")), "MPLBACKEND": "Agg"}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_the_stand_in_is_no_linux(run: Run) -> None:
    code = "import os, sys; print(sys.platform, hasattr(os, 'memfd_create')); open('/proc/cpuinfo')"
    done = run("-c", code)
    assert done.stdout == "darwin False\n"
    assert "FileNotFoundError" in done.stderr


@pytest.mark.slow
def test_a_study_from_python(run: Run) -> None:
    done = run("-c", FROM_PYTHON)
    assert done.returncode == 0, done.stderr
    assert "(230, 2)" in done.stdout


@pytest.mark.slow
def test_a_study_from_the_command_line(run: Run) -> None:
    for words in (
        ("--version",),
        ("simulate", "study.toml", "--seeds", "2", "--json"),
        ("manifest", "draft", "study.toml", "-o", "manifest.toml"),
        ("manifest", "check", "manifest.toml"),
        ("init", "federation"),
    ):
        done = run("-m", "parley.cli.main", *words)
        assert done.returncode == 0, (words, done.stderr)
        if words[0] == "simulate":
            assert len(json.loads(done.stdout)["runs"]) == 2


def test_nodes_are_refused_in_one_sentence_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    done = run("-m", "parley.cli.main", "demo")
    assert done.returncode == 2
    assert done.stderr.startswith("error: a node runs on Linux only: use a Linux machine or a container")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "parley-demo").exists()
