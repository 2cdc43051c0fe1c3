"""Nothing that is started loads a module from the folder where a person happens to stand."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import modules
from tests.support.until import GIVE_UP_SECONDS

ROOT = Path(__file__).parents[2]
TRAPS = ("deploy", "privacy", "mpc", "party", "coordinator", "federation", "study", "node", "aggregator", "learning")
"""Folders as a user's own project may have them; `parley` beside them where Python is not told to look there first."""
PARLEY = str(Path(sys.executable).with_name("parley"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Each of its packages raises as soon as somebody imports it."""
    for name in (*TRAPS, "parley", "numpy", "socket"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('the trap {name} was imported')\n")
    return tmp_path


def run(folder: Path, *command: str, timeout: float = GIVE_UP_SECONDS) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def test_the_traps_work(folder: Path) -> None:
    done = run(folder, sys.executable, "-m", "parley.cli.main", "--help")
    assert "the trap parley was imported" in done.stderr


@pytest.mark.parametrize("start", [[PARLEY], [sys.executable, "-P", "-m", "parley.cli.main"]])
@pytest.mark.slow
def test_a_command_and_its_children_run_beside_folders_of_the_same_names(start: list[str], folder: Path) -> None:
    """The servers of the noise benchmark are processes; so is what measures gradients, started by multiprocessing."""
    done = run(folder, *start, "bench", "noise", "--dimension", "20", "--no-baseline", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dimension"] == 20


@pytest.mark.slow
def test_children_of_multiprocessing_run_beside_them_too(folder: Path) -> None:
    done = run(folder, PARLEY, "bench", "gradients", "--seconds", "0.1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"]


@pytest.mark.slow
def test_without_a_parley_folder_python_m_needs_no_option(folder: Path) -> None:
    """Python itself puts the folder first: only names of `parley` itself and of its libraries could do harm."""
    for name in ("parley", "numpy", "socket"):
        (folder / name / "__init__.py").unlink()
        (folder / name).rmdir()
    done = run(folder, sys.executable, "-m", "parley.cli.main", "bench", "noise", "--dimension", "20", "--no-baseline")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_demonstration_passes_beside_folders_of_the_same_names(folder: Path) -> None:
    done = run(folder, PARLEY, "demo", "--json", timeout=900)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rounds"] > 0


def children(tree: ast.AST) -> Iterator[list[ast.expr]]:
    """What follows `sys.executable` in every list or call."""
    for node in ast.walk(tree):
        words = node.elts if isinstance(node, ast.List | ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        for place, word in enumerate(words):
            if ast.unparse(word) == "sys.executable" and not isinstance(
                words[place + 1], ast.List
            ):  # `exec` takes both
                yield words[place + 1 :]


@pytest.mark.slow
def test_every_child_of_the_product_is_started_with_a_safe_path() -> None:
    found = 0
    for path in modules():
        for words in children(ast.parse(path.read_text())):
            assert ast.unparse(words[0]) == "'-P'", f"{path}: {ast.unparse(words[0])}"
            found += 1
    assert found >= 9


def test_a_child_without_it_would_be_found() -> None:
    words = next(children(ast.parse("subprocess.run([sys.executable, '-m', 'parley.cli.main'])")))
    assert ast.unparse(words[0]) == "'-m'"
