"""A table of the paper."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.research.experiments import tables
from tests.support.experiments import FIELDS

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("dp-srm-paper-adaptive", "storm", "dp-agd")]


@pytest.mark.parametrize("method", ["ddp-srm", "auto", "dp-gd", *SLOW])
@pytest.mark.slow
def test_a_row_of_table_2_has_every_field(folder: Path, method: str) -> None:
    command = ["reproduce", "a9a", "--data", str(folder), "--seeds", "2", "--method", method, "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout.strip().splitlines()[-1])["rows"]
    assert [row["epsilon"] for row in rows] == [0.2, 0.5]
    for row in rows:
        assert set(row) >= FIELDS
        assert row["seeds"] == 2
        assert row["accountant"] == ("none" if method == "storm" else "pld")
        if method == "ddp-srm":
            assert row["parties"] == 10
            assert row["passes"] <= 5.01
            assert row["noise_by_accountant"]["rdp"] > row["noise_by_accountant"]["pld"]
            assert "Lemma 3.7" in row["noise_by_accountant"]["paper"]
            by = row["test_loss_by_accountant"]
            assert by["pld"] == row["test_loss"]
            assert by["rdp"] > 0
            assert by["paper"] is None
            assert row["paper_test_loss"] in tables.DATA_SETS["a9a"].paper["ddp-srm"]


def test_a_folder_without_the_data_is_one_line(tmp_path: Path) -> None:
    from parley.study.errors import StudyError

    with pytest.raises(StudyError, match=r"a9a/a9a\.xz is not in the folder"):
        tables.reproduce("a9a", tmp_path, 1, (), print)
