"""`parley page` as a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-P", "-m", "parley.cli.main", "page"]


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[dict[str, Any], "subprocess.Popen[str]"]]:
    """What it says when it serves, and the process."""
    process = subprocess.Popen(
        [*COMMAND, str(folder), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line), process
    finally:
        process.terminate()
        process.communicate()


def link(folder: Path) -> str:
    done = subprocess.run([*COMMAND, str(folder), "--link"], capture_output=True, text=True, check=True)
    return done.stdout
