"""`parley reproduce kinds`: rows of what was run, and what was run is not run again."""

from pathlib import Path

import pytest

from parley.research.experiments import kinds
from parley.research.experiments.kinds import AUTO, CONSTANT, DIFFPRIVLIB, NON_PRIVATE, chosen, complete, rows_of
from parley.research.experiments.network_runs import Table

SMALL = chosen(("records-500",))


def silent(_: str) -> None:
    """Nobody waits."""


def test_a_private_run_lies_between_the_constant_and_no_privacy_and_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.jsonl"
    methods = (CONSTANT, NON_PRIVATE, AUTO, "dp-gd")
    assert complete(SMALL, None, Table.open(path), 1, methods, (30.0,), silent) == []
    rows = {row["method"]: row for row in rows_of(SMALL, Table.open(path))}
    assert set(rows) == set(methods)
    assert rows[NON_PRIVATE]["test_loss"] < rows[AUTO]["test_loss"] + 0.05 < rows[CONSTANT]["test_loss"] + 0.05
    assert rows[AUTO]["epsilon"] == pytest.approx(30.0, rel=0.01)
    assert (rows[AUTO]["target_epsilon"], rows[CONSTANT]["target_epsilon"]) == (30.0, None)
    with path.open("a") as file:
        file.write('{"cell": "cut off')
    monkeypatch.setattr(kinds, "_runner", None)  # a run would fail
    complete(SMALL, None, Table.open(path), 1, methods, (30.0,), silent)
    assert len(path.read_text().splitlines()) == len(methods)


def test_what_cannot_be_run_is_left_out_with_a_reason(tmp_path: Path) -> None:
    table = Table.open(tmp_path / "runs.jsonl")
    left = complete(chosen(("bank", "amounts")), None, table, 1, (DIFFPRIVLIB,), (1.0,), silent)
    assert [(row["kind"], row["method"]) for row in left] == [("amounts", DIFFPRIVLIB), ("bank", None)]
    assert "two classes" in left[0]["reason"]
    assert "--data" in left[1]["reason"]
