"""The model file: loads in three lines, and is refused once anything in it was changed."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.coordinator.result import write_model, write_result
from parley.coordinator.store import RoundRecord, RunStore
from parley.learning.errors import ModelFileError
from parley.learning.model_archive import card_path
from parley.node.software import source_digest
from parley.study.model_file import LoadedModel, load, read_model
from tests.deploy.test_commands import answer, parley
from tests.federation.documents import BODY, manifest, meaning

THETA = np.array([1.0, -2.0, 0.25])
EVALUATION = {"accuracy": 0.75, "auc": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), EVALUATION)
    return tmp_path / "model.npz"


def by_hand(age: float, pulse: float) -> float:
    x = [(np.clip(age, 20, 90) - 55) / 35, (np.clip(pulse, 30, 220) - 125) / 95, 1.0]
    return float(np.rint(np.array(x) * 1024) / 1024 @ THETA)


def test_three_lines_load_and_predict(path: Path) -> None:
    program = (
        f"from parley.study.model_file import load\nmodel = load({str(path)!r})\nprint(model.predict([[80.0, 60.0]]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['1']", done.stderr


def test_rows_of_every_kind_give_the_same_answers(path: Path, tmp_path: Path) -> None:
    model = load(path)
    rows = [(80.0, 60.0), (30.0, 200.0), (400.0, -5.0)]
    wanted = [by_hand(*row) for row in rows]
    (tmp_path / "new.csv").write_text("pulse,age\n60,80\n200,30\n-5,400\n")
    for given in (rows, np.array(rows), [{"age": age, "pulse": pulse} for age, pulse in rows], tmp_path / "new.csv"):
        assert model.scores(given)[:, 0] == pytest.approx(wanted)
    assert list(model.predict(rows)) == ["1" if score > 0 else "0" for score in wanted]
    assert model.probabilities(rows) == pytest.approx(1 / (1 + np.exp(-np.array(wanted))))
    assert model.encoded(rows) @ THETA == pytest.approx(wanted)
    with pytest.raises(ModelFileError, match="needs 2 values in this order: age, pulse"):
        model.predict([[1.0]])


def test_classes_and_numbers_come_in_the_datas_own_terms() -> None:
    features = {"count": 2, "low": 0.0, "high": 1.0, "centre": 0.0, "spread": 1.0}
    classes = {
        "features": features,
        "target": {"name": "y", "kind": "classes", "classes": ["a", "b", "c"]},
    }
    theta = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 1.0]])
    model = LoadedModel(theta.ravel(), {"model": {"kind": "softmax"}, "schema": classes}, {})
    assert list(model.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))) == ["b", "c"]
    assert model.probabilities([[1.0, 0.0]]).sum() == pytest.approx(1)
    number = {
        **classes,
        "target": {"name": "y", "kind": "number", "centre": 10.0, "spread": 5.0, "low": 0.0, "high": 20.0},
    }
    model = LoadedModel(np.array([1.0, -1.0]), {"model": {"kind": "linear"}, "schema": number}, {})
    assert model.predict([[1.0, 0.5]])[0] == pytest.approx(12.5)
    with pytest.raises(ModelFileError, match="no probabilities"):
        model.probabilities([[1.0, 0.5]])


def test_the_card_says_what_the_run_was(path: Path) -> None:
    card = json.loads((path.parent / "card.json").read_text())
    assert card == read_model(path).card
    assert card["manifest_digest"] == manifest().digest.hex()
    assert (card["epsilon"], card["delta"], card["accountant"]) == (1.78, 1e-5, "pld")
    assert card["parties"] == {"hospital-a": 300, "hospital-b": 200, "hospital-c": 100}
    assert (card["unit"], card["relation"], card["statement"]) == ("row", "replace-one", "a sentence")
    assert (card["rounds"], card["evaluation"]) == (40, EVALUATION)
    assert card["software"]["source_digest"] == source_digest()
    assert len(source_digest()) == 64


def test_numpy_alone_opens_it(path: Path) -> None:
    with np.load(path, allow_pickle=False) as found:
        assert np.array_equal(found["theta"], THETA)
        assert json.loads(found["description"].tobytes())["model"]["kind"] == "logistic"
        assert json.loads(found["card"].tobytes())["run"] == BODY["run"]


def rewritten(path: Path, **arrays: Any) -> None:
    with np.load(path) as found:
        kept = {name: found[name] for name in found.files}
    np.savez(path, **{**kept, **arrays})


def altered(path: Path, **fields: Any) -> Any:
    return np.frombuffer(json.dumps({**read_model(path).card, **fields}).encode(), np.uint8)


def test_a_figure_that_was_edited_is_refused(path: Path) -> None:
    rewritten(path, card=altered(path, epsilon=0.1))
    with pytest.raises(ModelFileError, match="the card is not what was written"):
        read_model(path)


def test_other_parameters_and_another_schema_are_refused(path: Path) -> None:
    data = path.read_bytes()
    rewritten(path, theta=THETA + 1e-9)
    with pytest.raises(ModelFileError, match="theta is not what the card is about"):
        read_model(path)
    path.write_bytes(data)
    description = json.dumps({**read_model(path).description, "more": 1}).encode()
    rewritten(path, description=np.frombuffer(description, np.uint8))
    with pytest.raises(ModelFileError, match="the description is not what"):
        read_model(path)


def test_a_card_beside_it_that_was_edited_or_exchanged_is_refused(path: Path) -> None:
    beside = card_path(path)
    text = beside.read_text()
    beside.write_text(text.replace("1.78", "0.78"))
    with pytest.raises(ModelFileError, match=r"card\.json: the card is not what was written"):
        read_model(path)
    write_model(path.with_name("other.npz"), THETA * 2, manifest(), meaning())
    beside.write_text(card_path(path.with_name("other.npz")).read_text())
    with pytest.raises(ModelFileError, match="another model's card"):
        read_model(path)
    beside.unlink()
    read_model(path)


class Bomb:
    def __reduce__(self) -> Any:
        return print, ("executed",)


def test_a_pickle_is_refused_and_never_executed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten(path, theta=np.array([Bomb()], object))
    with pytest.raises(ModelFileError, match="nothing in it was executed"):
        read_model(path)
    path.write_bytes(b"\x80\x04\x95")
    with pytest.raises(ModelFileError):
        read_model(path)
    assert "executed" not in capsys.readouterr().out


def test_archives_of_another_shape_are_refused(path: Path) -> None:
    data = path.read_bytes()
    rewritten(path, more=np.zeros(1))
    with pytest.raises(ModelFileError, match="is not a model file"):
        read_model(path)
    path.write_bytes(data)
    with np.load(io.BytesIO(data)) as found:
        np.savez_compressed(path, **{name: found[name] for name in found.files})
    with pytest.raises(ModelFileError, match="is compressed"):
        read_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("theta.npy", b"")
    with pytest.raises(ModelFileError, match="is not a model file"):
        read_model(path)
    path.write_bytes(data[:-40])
    with pytest.raises(ModelFileError):
        read_model(path)


def test_parameters_that_are_no_model_are_not_written(tmp_path: Path) -> None:
    for theta in (THETA[:2], THETA * np.nan):
        with pytest.raises(ModelFileError, match="theta is"):
            write_model(tmp_path / "model.npz", theta, manifest(), meaning())
    with pytest.raises(ModelFileError, match="another manifest"):
        write_model(tmp_path / "model.npz", THETA, manifest(run="heart-2"), meaning())
    with pytest.raises(ModelFileError, match="not finite"):
        write_model(tmp_path / "model.npz", THETA, manifest(), meaning(), {"auc": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_export_finds_checks_and_copies(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_model(folder / "models" / "heart-1.npz", THETA, manifest(), meaning(), EVALUATION)
    write_model(folder / "models" / "heart-2.npz", THETA, manifest(run="heart-2"), meaning(run="heart-2"))
    out = tmp_path / "copy" / "model.npz"
    done = parley("export", str(folder), "--run", "heart-2", "-o", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert (answer(done)["run"], answer(done)["card"]) == ("heart-2", str(out.parent / "card.json"))
    assert read_model(out).card["run"] == "heart-2"
    assert "holds 2 models: give --run" in parley("export", str(folder), "-o", str(out)).stderr
    assert parley("export", str(path), "-o", str(out)).returncode == 0
    rewritten(path, theta=THETA * 2)
    refused = parley("export", str(path), "-o", str(out))
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: model.npz: theta is not what the card is about")


def finished(folder: Path, *runs: str) -> RunStore:
    """A coordinator's folder with runs that have a result."""
    (folder / "state").mkdir(parents=True)
    store = RunStore(folder / "state/runs.sqlite")
    for run in runs:
        each = manifest(run=run)
        store.submit(each.digest, run, each.canonical)
        store.set_claim(each.digest, meaning(run=run).as_json())
        last = RoundRecord(39, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, list(each.parties), [], 1.0, 1.0, 100, 100, {})
        store.finish(each.digest, THETA, {"loss": 0.5, "error": 0.25, "accuracy": 0.75}, last)
    return store


def test_a_finished_run_becomes_a_model_file_twice_over_if_need_be(tmp_path: Path) -> None:
    store = finished(tmp_path, "heart-1")
    path = write_result(tmp_path, store, manifest())
    assert path == tmp_path / "models/heart-1.npz"
    assert write_result(tmp_path, store, manifest()) == path
    card = read_model(path).card
    assert (card["rounds"], card["epsilon"], card["evaluation"]["accuracy"]) == (40, 1.78, 0.75)
    submitted = manifest(run="heart-2")
    store.submit(submitted.digest, "heart-2", submitted.canonical)
    assert write_result(tmp_path, store, submitted) is None
    store.close()


def test_export_writes_from_the_coordinators_store_where_the_file_is_gone(tmp_path: Path) -> None:
    home, out = tmp_path / "lead", tmp_path / "model.npz"
    finished(home, "heart-1").close()
    assert parley("export", str(home), "-o", str(out)).returncode == 0
    assert np.array_equal(read_model(out).theta, THETA)
    both = tmp_path / "both"
    finished(both, "heart-1", "heart-2").close()
    assert "more than one model: give --run" in parley("export", str(both), "-o", str(out)).stderr
    assert parley("export", str(both), "--run", "heart-2", "-o", str(out)).returncode == 0
    assert "no model yet" in parley("export", str(both), "--run", "heart-3", "-o", str(out)).stderr
