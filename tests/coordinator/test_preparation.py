"""What the coordinator measures on its public set, and what of it the card says."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from parley.coordinator.preparation import PublicSet, prepare
from parley.coordinator.result import write_model
from parley.learning.holding import CSV, Layout
from parley.models.registry import model_of
from parley.study.plan import PLACEHOLDERS
from parley.study.study import Study
from tests.support.documents import manifest, meaning
from tests.support.model_files import THETA
from tests.support.pictures import SIDE, STUDY, bright


def public(folder: Path) -> Path:
    rng = np.random.default_rng(3)
    rows = [(rng.integers(20, 90), rng.integers(30, 220), rng.integers(0, 2)) for _ in range(60)]
    path = folder / "public.csv"
    path.write_text("age,pulse,sick\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


def test_the_card_of_a_run_has_each_figure_with_its_interval_and_the_old_ones_as_they_were(tmp_path: Path) -> None:
    tried = PublicSet.of(manifest(), [public(tmp_path)], CSV, model_of(manifest())[1])
    each, last = tried.each, tried.last
    assert tried.examples(THETA) == (), "rows of this table are no pictures"
    card = write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), last(THETA))
    assert card["evaluation"] == each(THETA)
    assert set(card["evaluation"]) == {"loss", "error", "accuracy", "auc"}
    assert card["public_records"] == 60
    for name in ("loss", "accuracy", "auc"):
        figure = card["quality"][name]
        assert figure["value"] == pytest.approx(card["evaluation"][name])
        assert figure["low"] < figure["value"] < figure["high"]


def test_without_a_public_set_nothing_is_said(tmp_path: Path) -> None:
    ready = prepare(manifest())
    last = ready.measure
    assert ready.evaluate(THETA) == last(THETA) == {}
    assert ready.examples(THETA) == ()
    card = write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), last(THETA) or None)
    assert card["evaluation"] is card["quality"] is card["public_records"] is None


def test_a_public_set_of_pictures_has_examples_of_answers(tmp_path: Path) -> None:
    values, labels = bright(60)
    np.savez(tmp_path / "public.npz", X=values, label=labels)
    seen = {**STUDY, "transform": {"kind": "scattering", "shape": [1, SIDE, SIDE], "scales": 1, "groups": 9}}
    made = Study(
        seen, model="softmax", epsilon=2.0, run="pictures", federation="trial", parties={"a": 500, "b": 500},
        aggregators=PLACEHOLDERS["aggregators"], coordinator=PLACEHOLDERS["coordinator"],
        algorithm={"name": "dp-gd", "steps_taken": 4},
    ).manifest()  # fmt: skip
    ready = prepare(made, [tmp_path / "public.npz"], layout=Layout("npz"))
    found = ready.examples(ready.theta)
    assert found
    assert {each.truth for each in found} == {"left", "right"}
    assert all(labels[each.row] == each.truth for each in found)
    assert np.array_equal(np.rint(imread(io.BytesIO(found[0].png)) * 255).ravel(), values[found[0].row])
