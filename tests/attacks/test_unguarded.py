"""A process without guards."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_process_runs_without_the_guards_that_are_named(tmp_path: Path) -> None:
    """And only guards that are known are taken away."""
    script = [sys.executable, "-m", "parley.attacks.unguarded"]
    (tmp_path / "shows.py").write_text(
        "from parley.node.connections import MOST_CONNECTIONS\nprint(MOST_CONNECTIONS)\n"
    )
    done = subprocess.run(
        [*script, "connections-of-a-port", "shows"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "parley.no_such_option\n"
    done = subprocess.run([*script, "nothing", "shows"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    done = subprocess.run(
        [*script, "doorkeeper", "parley.node.doorkeeper"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
