"""From the coordinator's store to a model file."""

from pathlib import Path

from parley.coordinator.result import write_result
from parley.study.model_file import load
from tests.support.documents import manifest
from tests.support.model_files import finished


def test_a_finished_run_becomes_a_model_file_twice_over_if_need_be(tmp_path: Path) -> None:
    store = finished(tmp_path, "heart-1")
    path = write_result(tmp_path, store, manifest())
    assert path == tmp_path / "models/heart-1.npz"
    assert write_result(tmp_path, store, manifest()) == path
    card = load(path).card
    assert (card["rounds"], card["epsilon"], card["evaluation"]["accuracy"]) == (40, 1.78, 0.75)
    submitted = manifest(run="heart-2")
    store.submit(submitted.digest, "heart-2", submitted.canonical)
    assert write_result(tmp_path, store, submitted) is None
    store.close()
