"""A federation of real processes whose model sees scattering beside a user's own extractor."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Operator
from parley.study.model_file import load
from parley.study.study import Study
from tests.end_to_end.test_data_sets import _ended
from tests.study.test_features import SCATTERING, SIDE, SIMPLE, stripes
from tests.support.extractors import installed
from tests.support.until import until

UNITS = 300


def archive(path: Path, seed: int) -> Path:
    cells = stripes(UNITS, seed)
    images = np.array([cells[f"p{n}"] for n in range(SIDE * SIDE)]).T
    np.savez(path, X=images.astype(np.uint8), upright=np.array(cells["upright"]))
    return path


@pytest.mark.slow
def test_a_run_with_features_ends_with_a_model_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = installed(tmp_path / "packages", monkeypatch)
    own = {
        "kind": mine.kind, "shape": list(mine.shape), "columns": mine.columns,
        "trained_on": mine.trained_on, "declared_by": mine.declared_by,
    }  # fmt: skip
    study = Study(
        {
            "features": {"count": SIDE * SIDE, "low": 0, "high": 255, "spread": 255},
            "target": {"name": "upright", "kind": "binary", "positive": ["1"], "negative": ["0"]},
            "transform": [SCATTERING, own],
            "intercept": True,
            "bits": 4,
        },
        run="heart-1",
        federation="cardio",
        epsilon=4.0,
        algorithm=SIMPLE,
        parties={"hospital-a": UNITS, "hospital-b": UNITS},
        aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "University Hospital"),
    )
    manifest = study.manifest()
    data = {name: [archive(tmp_path / f"{name}.npz", seed)] for seed, name in enumerate(study.parties)}
    public = archive(tmp_path / "test.npz", 9)
    with LocalFederation(tmp_path / "nodes", manifest, data, evaluation=[public]) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail(), federation.parties[0].tail())
        for node in federation.parties:
            until(partial(_ended, node.folder))
            assert (node.folder / "state" / "features").is_dir()
            until(partial(_erased, node.folder))
    model = load(federation.coordinator.folder / "models" / "heart-1.npz", allow=mine.kind)
    assert model.figures(public)["accuracy"].value > 0.9
    assert model.card["quality"]["accuracy"]["value"] > 0.9
    (said,) = model.card["declared"]
    assert said.endswith("declared, not checked")


def _erased(folder: Path) -> bool:
    return not list((folder / "state" / "features").rglob("*.features"))
