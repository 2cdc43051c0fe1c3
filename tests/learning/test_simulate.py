"""The commands on a small public data set, end to end."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from parley.cli.main import app
from parley.learning.errors import ModelError
from parley.learning.evaluation import area_under_curve
from parley.study.errors import RunFileError
from parley.study.run_file import read_run_file

RUN = """
[data]
train = ["train.csv"]
test = ["test.csv"]
[schema]
format = "csv"
intercept = true
features = [
  { name = "a", low = -2.0, high = 2.0 },
  { name = "b", low = -2.0, high = 2.0 },
  { name = "c", kind = "category", categories = ["x", "y"] },
]
target = { name = "ill", kind = "binary", positive = ["1"], negative = ["0"] }
[model]
kind = "logistic"
[algorithm]
name = "ALGORITHM"
[privacy]
epsilon = 2.0
delta = 1e-5
[federation]
parties = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(11)
    for name, count in (("train.csv", 3000), ("test.csv", 1000)):
        a, b, c = rng.normal(0, 1, count), rng.normal(0, 1, count), rng.integers(0, 2, count)
        ill = rng.random(count) < 1 / (1 + np.exp(-(2 * a - b + c - 0.5)))
        rows = [f"{x},{y},{'xy'[z]},{int(w)}" for x, y, z, w in zip(a, b, c, ill, strict=True)]
        (tmp_path / name).write_text("\n".join(["a,b,c,ill", *rows]) + "\n")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "logistic"', 'kind = "tree"', "tree"),
        ('name = "ALGORITHM"', 'name = "sgd"', "no algorithm"),
        ("epsilon = 2.0", "epsilon = true", "epsilon"),
        ("parties = 3", "partys = 3", "partys"),
        ("[privacy]", "[secrecy]", "secrecy"),
        ('kind = "logistic"', 'kind = "linear"', "number target"),
    ],
)
def test_a_wrong_run_file_is_one_line_that_says_what_to_change(folder: Path, old: str, new: str, message: str) -> None:
    from parley.algorithms.errors import AlgorithmError

    with pytest.raises((RunFileError, AlgorithmError, ModelError), match=message):
        read_run_file(write(folder, RUN.replace(old, new).replace("ALGORITHM", "auto")))


def test_area_under_the_curve_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    scores, targets = np.round(rng.normal(0, 1, 500), 1), rng.integers(0, 2, 500).astype(np.float64)
    assert area_under_curve(scores, targets) == pytest.approx(roc_auc_score(targets, scores))
