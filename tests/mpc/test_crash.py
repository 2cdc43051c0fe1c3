"""Crash points: nothing without the variable, kill -9 at the named point and count with it."""

import os
import signal
import subprocess
import sys

import pytest

from parley.mpc.crash import VARIABLE

CODE = "from parley.mpc import crash\nfor _ in range(3): crash.point('aggregator.prepared'); print('on', flush=True)"


@pytest.mark.parametrize(
    ("armed", "lines", "code"),
    [
        ("", 3, 0),
        ("aggregator.committed", 3, 0),
        ("aggregator.prepared", 0, -signal.SIGKILL),
        ("aggregator.prepared:3", 2, -signal.SIGKILL),
    ],
)
def test_a_process_dies_at_the_point_and_count_that_are_named(armed: str, lines: int, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=os.environ | {VARIABLE: armed}, capture_output=True, text=True, check=False
    )
    assert (done.stdout.count("on"), done.returncode) == (lines, code)
