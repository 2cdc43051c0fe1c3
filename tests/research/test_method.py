"""Central methods as runs name them."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.algorithms.errors import AlgorithmError
from parley.algorithms.registry import build_algorithm
from parley.algorithms.regularisers import Regulariser
from parley.cli.main import app
from parley.federation.kinds import CENTRAL
from parley.learning.models import Linear, Logistic
from parley.privacy.randomness import SystemRandomness
from parley.research.central.method import Own, known
from tests.support.central import D, noise, records


@pytest.mark.parametrize("name", sorted(known()))
def test_the_average_of_parties_is_weighted_and_silent_noise_finds_the_minimum(name: str) -> None:
    method, model = known()[name](strength=0.05), Linear(D, Logistic())
    own: list[Own] = [(records(seed), noise(seed, True), SystemRandomness()) for seed in (1, 2)]
    together = method.train(own, model, 1.0, 1e-5, 1.75)
    apart = [method.train([each], model, 1.0, 1e-5, 1.75) for each in own]
    np.testing.assert_allclose(together, (apart[0] + apart[1]) / 2, rtol=1e-9)
    assert np.linalg.norm(together) > 0.1


def test_the_table_that_a_federation_refuses_by_names_every_central_method() -> None:
    assert set(CENTRAL) == set(known())


@pytest.mark.parametrize("name", sorted(known()))
def test_no_federation_can_be_asked_for_a_central_method(name: str) -> None:
    with pytest.raises(AlgorithmError, match="no mechanism accounts"):
        build_algorithm({"name": name}, Regulariser())


STUDY = """
[data]
train = ["train.csv"]
parties = 2
test = ["test.csv"]
[schema]
intercept = true
features = [{ name = "a", low = -2.0, high = 2.0 }]
target = { name = "ill", kind = "binary", positive = ["1"], negative = ["0"] }
[model]
kind = "logistic"
[algorithm]
name = "NAME"
strength = 0.05
[privacy]
epsilon = 2.0
delta = 1e-5
"""


@pytest.mark.parametrize("name", sorted(known()))
def test_simulate_runs_it_and_says_whose_noise_it_is(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(0, 1, 2000)
    ill = rng.random(2000) < 1 / (1 + np.exp(-2 * a))
    rows = [f"{x},{int(y)}\n" for x, y in zip(a, ill, strict=True)]
    (tmp_path / "train.csv").write_text("a,ill\n" + "".join(rows))
    (tmp_path / "test.csv").write_text("a,ill\n" + "".join(rows[::2]))
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("NAME", name))
    result = CliRunner().invoke(app, ["simulate", str(path), "--seeds", "2", "--json"])
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout.strip().splitlines()[-1])["runs"]
    for run in runs:
        assert run["accountant"] == "own proof"
        assert "simulations only" in run["statement"]
        assert run["delta"] == (0.0 if name.startswith("pure") else 1e-5)
        assert run["test_error"] < 0.4
    assert runs[0]["test_loss"] != runs[1]["test_loss"]
