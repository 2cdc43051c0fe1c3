"""The previous release, from this repository's history: installed beside this one, with the dependencies of this one.

Its commit is in tests/end_to_end/previous-release; a release replaces it by its own (docs/release.md).
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMIT = (ROOT / "tests" / "end_to_end" / "previous-release").read_text().strip()


def installed(folder: Path) -> Path:
    """A folder for PYTHONPATH; parley's own packages there hide those of this checkout."""
    tree, site = folder / "tree", folder / "site"
    tree.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", COMMIT], capture_output=True, check=False)
    if archive.returncode:
        raise RuntimeError(f"commit {COMMIT[:12]} is not in this clone: `git fetch --unshallow`, then try again")
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(tree)]
    subprocess.run(command, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return site


def environment(site: Path) -> dict[str, str]:
    """For a process of that release, and for all that it starts."""
    return {"PYTHONPATH": str(site)}
