"""`parley export`."""

from pathlib import Path

import numpy as np

from parley.coordinator.result import write_model
from parley.study.model_file import load
from tests.support.command import answer, parley
from tests.support.documents import manifest, meaning
from tests.support.model_files import EVALUATION, THETA, finished, rewritten


def test_export_finds_checks_and_copies(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_model(folder / "models" / "heart-1.npz", THETA, manifest(), meaning(), EVALUATION)
    write_model(folder / "models" / "heart-2.npz", THETA, manifest(run="heart-2"), meaning(run="heart-2"))
    out = tmp_path / "copy" / "model.npz"
    done = parley("export", str(folder), "--run", "heart-2", "-o", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert (answer(done)["run"], answer(done)["card"]) == ("heart-2", str(out.parent / "card.json"))
    assert load(out).card["run"] == "heart-2"
    assert "holds 2 models: give --run" in parley("export", str(folder), "-o", str(out)).stderr
    assert parley("export", str(path), "-o", str(out)).returncode == 0
    rewritten(path, theta=THETA * 2)
    refused = parley("export", str(path), "-o", str(out))
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: model.npz: theta is not what the card is about")


def test_export_writes_from_the_coordinators_store_where_the_file_is_gone(tmp_path: Path) -> None:
    home, out = tmp_path / "lead", tmp_path / "model.npz"
    finished(home, "heart-1").close()
    assert parley("export", str(home), "-o", str(out)).returncode == 0
    assert np.array_equal(load(out).theta, THETA)
    both = tmp_path / "both"
    finished(both, "heart-1", "heart-2").close()
    assert "more than one model: give --run" in parley("export", str(both), "-o", str(out)).stderr
    assert parley("export", str(both), "--run", "heart-2", "-o", str(out)).returncode == 0
    assert "no model yet" in parley("export", str(both), "--run", "heart-3", "-o", str(out)).stderr
