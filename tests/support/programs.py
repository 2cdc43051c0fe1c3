"""Programs of Debian's packages that tests use: where one is absent its tests are skipped, and in CI they fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

IN_CI = os.environ.get("PARLEY_CI") == "1"
"""Set by .ci/run, which installs the packages."""
PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def program(name: str, package: str, from_debian: bool = True) -> str:
    """Its path; without it the test ends here. CI installs what Debian has."""
    found = shutil.which(name, path=PLACES)
    if found is None:
        absent = f"{name} is not installed: apt-get install {package}"
        (pytest.fail if IN_CI and from_debian else pytest.skip)(absent)
    return found


def said(command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code, and both of its outputs."""
    env = {**os.environ, **(environment or {}), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=folder, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.returncode, done.stdout
