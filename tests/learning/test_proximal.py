"""The smoothed hinge is the Moreau envelope of the hinge, and ProxGD learns with it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.learning.errors import SchemaError
from parley.learning.models import Linear
from parley.learning.proximal import SmoothedHinge, theorem_smoothness
from parley.learning.rows import DenseRows
from parley.learning.schema import schema_from_json
from parley.models.registry import build_model

BETA, REACH = 3.0, 2.0


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_value_and_gradient_are_those_of_the_moreau_envelope(target: float) -> None:
    """Definition 4.1 and Lemma 4.3 by brute force, for a row as long as the public bound."""
    x = np.array([1.0, -2.0])
    block = DenseRows.of(x[None], 0).take(np.array([0]))
    model = Linear(2, SmoothedHinge(BETA, float(np.sqrt(5))))
    z = 2 * target - 1
    for w in np.random.default_rng(0).normal(0, 0.5, (20, 2)):
        # The minimiser lies on the line w + t·x, with |t| ≤ 1/β.
        t = np.linspace(-0.5, 0.5, 200_001)
        value = np.maximum(0, 1 - z * (x @ w + t * (x @ x))) + BETA / 2 * t * t * (x @ x)
        assert model.losses(block, np.array([target]), w)[0] == pytest.approx(value.min(), abs=2e-5)
        gradient = model.gradients(block, np.array([target]), w)[0]
        np.testing.assert_allclose(gradient, -BETA * t[value.argmin()] * x, atol=1e-3)


def test_it_is_the_hinge_up_to_what_lemma_4_3_allows() -> None:
    """f_β ≤ f ≤ f_β + L²/2β, and the residual never exceeds 1."""
    loss = SmoothedHinge(BETA, REACH)
    scores = np.linspace(-5, 5, 1001)[:, None]
    for target in (0.0, 1.0):
        targets = np.full(len(scores), target)
        hinge = np.maximum(0, 1 - (2 * target - 1) * scores[:, 0])
        smooth = loss.losses(scores, targets)
        assert (smooth <= hinge + 1e-12).all()
        assert (hinge <= smooth + REACH**2 / (2 * BETA) + 1e-12).all()
        assert np.abs(loss.residuals(scores, targets)).max() <= 1


def test_the_theorems_smoothness_takes_the_smaller_of_both_terms() -> None:
    assert theorem_smoothness(1.0, 2.0, 10_000, 10, 1e6, 1e-5) == pytest.approx(12.5)
    assert theorem_smoothness(1.0, 2.0, 100, 10, 0.1, 1e-5) < 0.1


STUDY = """
[data]
train = ["train.csv"]
test = ["test.csv"]
[schema]
intercept = true
features = [{ name = "a", low = -2.0, high = 2.0 }]
target = { name = "ill", kind = "binary", positive = ["1"], negative = ["0"] }
[model]
kind = "smoothed-hinge"
smoothness = 5.0
[algorithm]
name = "proxgd"
lipschitz = 2.3
radius = 5.0
steps_taken = 60
[privacy]
epsilon = 1.0
delta = 1e-6
"""


def test_a_study_names_it_and_proxgd_learns(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(0, 1, 4000)
    ill = a + rng.normal(0, 0.3, len(a)) > 0.4
    rows = [f"{x},{int(y)}\n" for x, y in zip(a, ill, strict=True)]
    (tmp_path / "train.csv").write_text("a,ill\n" + "".join(rows))
    (tmp_path / "test.csv").write_text("a,ill\n" + "".join(rows[::2]))
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    result = CliRunner().invoke(app, ["simulate", str(path), "--seeds", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.strip().splitlines()[-1])["mean"]["test_error"] < 0.2


def test_a_smoothness_that_is_none_is_refused() -> None:
    body = {"features": [{"name": "a", "low": 0, "high": 1}]}
    target = {"name": "b", "kind": "binary", "positive": ["1"], "negative": ["0"]}
    schema = schema_from_json({**body, "target": target})
    assert build_model({"kind": "smoothed-hinge"}, schema).dimension == 1
    with pytest.raises(SchemaError, match="above 0"):
        build_model({"kind": "smoothed-hinge", "smoothness": 0.0}, schema)
