"""The command as scripts and people call it."""

import json
import subprocess
import sys
from typing import Any

from parley.errors import ParleyError
from tests.support.until import GIVE_UP_SECONDS


def parley(*words: str, timeout: float = GIVE_UP_SECONDS) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "parley.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def answer(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The last line of standard output."""
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def typed(answers: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """The same in this process, with somebody who answers: a fraction of a process's start."""
    from typer.testing import CliRunner

    from parley.cli.main import app

    done = CliRunner().invoke(app, list(words), input=answers)
    said = f"error: {done.exception}\n" if isinstance(done.exception, ParleyError) else ""
    assert said or done.exception is None or isinstance(done.exception, SystemExit), done.exception
    code = 2 if said else done.exit_code
    return subprocess.CompletedProcess(list(words), code, done.stdout, done.stderr + said)
