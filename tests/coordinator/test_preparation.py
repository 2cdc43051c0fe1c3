"""What the coordinator measures on its public set, and what of it the card says."""

from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.preparation import evaluators
from parley.coordinator.result import write_model
from tests.support.documents import manifest, meaning
from tests.support.model_files import THETA


def public(folder: Path) -> Path:
    rng = np.random.default_rng(3)
    rows = [(rng.integers(20, 90), rng.integers(30, 220), rng.integers(0, 2)) for _ in range(60)]
    path = folder / "public.csv"
    path.write_text("age,pulse,sick\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


def test_the_card_of_a_run_has_each_figure_with_its_interval_and_the_old_ones_as_they_were(tmp_path: Path) -> None:
    each, last = evaluators(manifest(), [public(tmp_path)])
    card = write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), last(THETA))
    assert card["evaluation"] == each(THETA)
    assert set(card["evaluation"]) == {"loss", "error", "accuracy", "auc"}
    assert card["public_records"] == 60
    for name in ("loss", "accuracy", "auc"):
        figure = card["quality"][name]
        assert figure["value"] == pytest.approx(card["evaluation"][name])
        assert figure["low"] < figure["value"] < figure["high"]


def test_without_a_public_set_nothing_is_said(tmp_path: Path) -> None:
    each, last = evaluators(manifest(), [])
    assert each(THETA) == last(THETA) == {}
    card = write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), last(THETA) or None)
    assert card["evaluation"] is card["quality"] is card["public_records"] is None
