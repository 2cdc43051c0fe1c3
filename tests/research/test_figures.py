"""A figure of the paper."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.cli.main import app


@pytest.mark.slow
def test_a_figure_has_a_curve_per_method_and_epsilon(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.research.experiments.figures.METHODS", ("dp-gd", "rrpsgd"))
    command = ["reproduce", "figures", "--data", str(folder), "--out", str(tmp_path), "--seeds", "2", "--only", "a9a"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    curves = json.loads(result.stdout.strip().splitlines()[-1])["figures"]["a9a"]
    assert [(each["method"], each["epsilon"]) for each in curves] == [
        ("dp-gd", 0.2), ("rrpsgd", 0.2), ("dp-gd", 0.5), ("rrpsgd", 0.5)
    ]  # fmt: skip
    for each in curves:
        assert len(each["passes"]) == len(each["objective"]) == len(each["gradient_norm"]) > 3
        assert each["passes"] == sorted(each["passes"])
    assert (tmp_path / "figure-1.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "figure-1.json").read_text())["curves"] == curves
