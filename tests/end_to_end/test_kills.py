"""Kill −9, restarted: one run that everybody dies in. The full harness is benchmarks/kills.py."""

import ast
from pathlib import Path

import pytest

from parley.mpc.parts import NoiseParts
from tests.end_to_end.kill_series import LABELS, series
from tests.end_to_end.killing import ANSWERED, AUDITS, ELSEWHERE, EVIDENCE, HELD
from tests.support.sources import modules

ROOT = Path(__file__).parents[2]
STATES = ("gathering", "running", "ending", "finished", "stalled", "failed", "refused")
"""Of `coordinator.{state}`, which the driver moves to."""


@pytest.mark.slow
def test_every_labelled_point_of_the_roles_is_one_that_the_harness_kills_at() -> None:
    found = set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func) == "crash.point"
            ):
                (label,) = node.args
                if isinstance(label, ast.Constant):
                    found.add(str(label.value))
                else:
                    assert ast.unparse(label) == "f'coordinator.{state}'"
                    found |= {f"coordinator.{state}" for state in STATES}
    assert found == {*LABELS, *ELSEWHERE, *EVIDENCE, ANSWERED, *AUDITS, HELD}


@pytest.mark.slow
def test_a_run_in_which_everybody_is_killed_ends_as_if_nobody_had_been(tmp_path: Path) -> None:
    made = series(tmp_path, kills=40, rounds=24, labels_per_node=3, random_kills=4, seed=3)
    assert made.total >= 40
    assert all(run["state"] == "finished" for run in made.runs)


@pytest.mark.long
def test_a_run_under_audit_in_which_everybody_is_killed_ends_as_if_nobody_had_been(tmp_path: Path) -> None:
    made = series(
        tmp_path, kills=40, rounds=24, labels_per_node=3, random_kills=4, seed=4, parts=NoiseParts("covert", 0.5, "1/4")
    )
    assert made.total >= 40
    assert all(run["state"] == "finished" for run in made.runs)
