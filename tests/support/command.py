"""The command as scripts and people call it."""

import json
import subprocess
import sys
from typing import Any

from tests.support.until import GIVE_UP_SECONDS


def parley(*words: str, timeout: float = GIVE_UP_SECONDS) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "parley.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def answer(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The last line of standard output."""
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
