"""What `make demo` and `make test` show while they install."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tools.install import AT, ROOT


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


OFFLINE = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@pytest.mark.slow
def test_one_line_before_the_silence_and_all_that_pip_said_if_it_fails(environment: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/tools/install.py", environment, "study"],
        env=OFFLINE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = done.stderr.splitlines()
    assert done.returncode == 1
    assert told[0] == f"installing parley and what it needs into {environment}: about a minute"
    assert "No matching distribution found for hatchling" in done.stderr
    assert told[-1] == "this failed; docs/install.md says what is needed"
    assert "\r" not in done.stderr


def test_a_terminal_shows_what_pip_is_at(environment: Path) -> None:
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, ROOT / "deploy/tools/install.py", environment, "study"], env=OFFLINE, stderr=child
    ) as running:
        os.close(child)
        told = b""
        try:
            while data := os.read(parent, 1 << 16):
                told += data
        except OSError:  # how a terminal ends on Linux
            pass
    os.close(parent)
    assert running.returncode == 1
    assert b" s  Installing build dependencies" in told


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting numpy>=2.0 (from parley-federation==0.1.0)", True),
        ("  Installing build dependencies: started", True),
        ("Requirement already satisfied: pip", False),
        ("WARNING: somewhere", False),
    ],
)
def test_lines_that_say_what_pip_is_at(line: str, shown: bool) -> None:
    assert bool(AT.fullmatch(line)) is shown
