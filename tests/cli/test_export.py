"""`parley export`."""

import json
from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.result import write_model
from parley.study.model_file import load
from tests.support.command import answer, parley
from tests.support.documents import manifest, meaning
from tests.support.model_files import EVALUATION, THETA, finished, rewritten


@pytest.mark.slow
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
    assert "is there already: give another name, or --force" in parley("export", str(path), "-o", str(out)).stderr
    assert load(out).card["run"] == "heart-2"
    assert parley("export", str(path), "-o", str(out), "--force").returncode == 0
    assert parley("export", str(path), "-o", str(path)).returncode == 0, "onto itself it changes nothing"
    rewritten(path, theta=THETA * 2)
    refused = parley("export", str(path), "-o", str(out), "--force")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: model.npz: theta is not what the card is about")


@pytest.mark.slow
def test_export_writes_from_the_coordinators_store_where_the_file_is_gone(tmp_path: Path) -> None:
    home, out = tmp_path / "lead", tmp_path / "model.npz"
    finished(home, "heart-1").close()
    assert parley("export", str(home), "-o", str(out)).returncode == 0
    assert np.array_equal(load(out).theta, THETA)
    both = tmp_path / "both"
    finished(both, "heart-1", "heart-2").close()
    assert "more than one model: give --run" in parley("export", str(both), "-o", str(out)).stderr
    assert parley("export", str(both), "--run", "heart-2", "-o", str(out), "--force").returncode == 0
    assert "no model yet" in parley("export", str(both), "--run", "heart-3", "-o", str(out)).stderr


def test_export_writes_the_card_for_people(path: Path, tmp_path: Path) -> None:
    for name, begins in (("card.html", "<!doctype html>"), ("card.md", "# Model card: heart-1")):
        done = parley("export", str(path), "--card", str(tmp_path / "new" / name))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "new" / name).read_text().startswith(begins)
    model, wrong = tmp_path / "first.onnx", tmp_path / "card.pdf"
    assert "ends in none of .html, .md" in parley("export", str(path), "-o", str(model), "--card", str(wrong)).stderr
    assert not model.exists(), "every name is checked before the first file is written"


@pytest.mark.slow
def test_export_writes_plain_json_by_the_ending(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain.json"
    done = parley("export", str(path), "-o", str(out), "--json")
    assert answer(done)["model"] == str(out)
    assert json.loads(out.read_text())["target"]["classes"] == ["0", "1"]
    assert "is the name of a card" in parley("export", str(path), "-o", str(tmp_path / "card.json")).stderr
    assert "none of .npz, .onnx, .json" in parley("export", str(path), "-o", str(tmp_path / "model.pkl")).stderr
    assert "nothing to write" in parley("export", str(path)).stderr


@pytest.mark.slow
def test_export_draws_a_picture_of_public_rows(path: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{age},{pulse},{int(age > 50)}" for age, pulse in ((30, 60), (40, 90), (60, 70), (80, 120)))
    (tmp_path / "public.csv").write_text(f"age,pulse,sick\n{rows}\n")
    call = ("export", str(path), "--plot", str(tmp_path / "quality.svg"))
    assert "go together" in parley(*call).stderr
    done = parley(*call, "--test", str(tmp_path / "public.csv"))
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "quality.svg").read_text()


@pytest.mark.slow
def test_export_writes_onnx_by_the_ending(path: Path, tmp_path: Path) -> None:
    import onnx

    assert parley("export", str(path), "-o", str(tmp_path / "model.onnx")).returncode == 0
    onnx.checker.check_model(onnx.load(tmp_path / "model.onnx"))
