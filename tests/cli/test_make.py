"""`make help`: every target that a person calls, with its comment."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_every_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    targets = {name for line in phony for name in line.split()}
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    explained = {line.split()[1] for line in shown.splitlines() if len(line.split()) > 2}
    assert explained == targets
