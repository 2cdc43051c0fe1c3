"""The commands on a small public data set, end to end."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from tests.support.run_files import RUN, write


@pytest.mark.parametrize("workers", [1, 2])
def test_simulate_trains_a_useful_model_and_speaks_json(folder: Path, workers: int) -> None:
    path = write(folder, RUN.replace("ALGORITHM", "auto"))
    result = CliRunner().invoke(app, ["simulate", str(path), "--seeds", "2", "--workers", str(workers), "--json"])
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout.strip().splitlines()[-1])
    assert [run["seed"] for run in body["runs"]] == [0, 1]
    for run in body["runs"]:
        assert {"seed", "epsilon", "delta", "rounds", "train_loss", "test_loss", "test_error", "auc", "seconds"} <= set(
            run
        )
        assert run["gaussian_epsilon"] < run["epsilon"] <= 2.0
        assert run["gaussian_delta"] < run["delta"] == 1e-5
        assert "finite noise sampler" in run["statement"]
        # The generating model's own error is about 0.22 and its area 0.86.
        assert run["test_error"] < 0.27
        assert run["auc"] > 0.82
    assert body["mean"]["test_loss"] == pytest.approx(np.mean([run["test_loss"] for run in body["runs"]]))
