"""A study with features: simulated, saved, asked again; code only where somebody allows it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley import study
from parley.errors import ParleyError
from parley.learning.errors import ModelFileError
from parley.study.estimators import PrivateClassifier
from parley.study.portable import portable
from tests.support.extractors import installed

SIDE = 8
SCATTERING = {"kind": "scattering", "shape": [1, SIDE, SIDE], "groups": 9}
SIMPLE: dict[str, Any] = {"name": "dp-sgd", "clip_norm": 1.0, "batch": 100, "passes": 2.0, "step": 1.0}


def stripes(count: int, seed: int) -> dict[str, list[Any]]:
    """Images of stripes, upright or lying."""
    draw = np.random.default_rng(seed)
    upright = draw.integers(0, 2, count)
    waves = (np.arange(SIDE) // 2 + draw.integers(0, 4, (count, 1))) % 2 * 255.0
    lying = waves[:, :, None] + np.zeros(SIDE)
    images = np.where(upright[:, None, None], lying.transpose(0, 2, 1), lying).reshape(count, -1)
    images = np.clip(images + draw.normal(0, 20, images.shape), 0, 255).round()
    return {**{f"p{n}": images[:, n].tolist() for n in range(SIDE * SIDE)}, "upright": upright.tolist()}


def a_study(transform: Any) -> study.Study:
    schema = {
        "features": {"count": SIDE * SIDE, "low": 0, "high": 255, "spread": 255},
        "target": {"name": "upright", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "transform": transform,
        "intercept": True,
        "bits": 4,
    }
    return study.Study(schema, model="logistic", algorithm=SIMPLE, epsilon=4.0)


def test_features_tell_stripes_apart_that_pixels_do_not(tmp_path: Path) -> None:
    records, test = stripes(400, 1), stripes(100, 2)
    result = a_study(SCATTERING).simulate(records, test=test, seeds=1)
    assert result.quality["accuracy"].mean > 0.95
    result.save(tmp_path / "model.npz")
    model = study.load(tmp_path / "model.npz")
    assert model.schema.transform == a_study(SCATTERING).schema.transform
    assert model.figures(test)["accuracy"].value == pytest.approx(result.quality["accuracy"].mean)
    assert model.card["declared"] is None
    assert "scattering transform, as images of 1 x 8 x 8" in model.card_page().markdown()
    with pytest.raises(ModelFileError, match=r"features between columns and model \(transform\)"):
        portable(model)


def test_an_estimator_refuses_what_it_would_drop() -> None:
    with pytest.raises(ValueError, match="has no transform"):
        PrivateClassifier(schema=a_study(SCATTERING).schema).fit(np.zeros((4, 64)), [0, 1, 0, 1])


def test_made_up_rows_can_be_learnt_from() -> None:
    s = a_study(SCATTERING)
    assert len(s.made_up(50)["upright"]) == 50


@pytest.mark.slow
def test_a_users_own_features_run_where_they_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    mine = installed(tmp_path, monkeypatch)
    own = {
        "kind": mine.kind, "shape": list(mine.shape), "columns": mine.columns,
        "trained_on": mine.trained_on, "declared_by": mine.declared_by,
    }  # fmt: skip
    s = a_study([SCATTERING, own])
    records, test = stripes(200, 1), stripes(60, 2)
    result = s.simulate(records, test=test, seeds=1)
    said = "torch:hospital_features:extract: trained on CIFAR-100, says Dr. Ada Osei: declared, not checked"
    assert said in " ".join(str(result).split())
    asked = result.predict(test)
    result.save(tmp_path / "model.npz")
    kept = study.load(tmp_path / "model.npz")
    assert kept.card["declared"] == [said]
    assert "declared, not checked" in kept.card_page().markdown()
    with pytest.raises(ModelFileError, match="parley predict --allow torch:hospital_features:extract"):
        kept.predict(test)
    allowed = study.load(tmp_path / "model.npz", allow=mine.kind)
    assert np.array_equal(allowed.predict(test), asked)
    (tmp_path / "hospital_features" / "weights.bin").write_bytes(bytes(256))
    with pytest.raises(ParleyError, match="was agreed on"):
        study.load(tmp_path / "model.npz", allow=mine.kind).predict(test)
