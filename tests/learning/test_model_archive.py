"""The form of a model file: plain arrays, and what was changed in any of them is refused."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.coordinator.result import write_model
from parley.learning.errors import ModelFileError
from parley.learning.model_archive import card_path
from parley.study.model_file import load
from tests.support.documents import BODY, manifest, meaning
from tests.support.model_files import THETA, rewritten


def test_numpy_alone_opens_it(path: Path) -> None:
    with np.load(path, allow_pickle=False) as found:
        assert np.array_equal(found["theta"], THETA)
        assert json.loads(found["description"].tobytes())["model"]["kind"] == "logistic"
        assert json.loads(found["card"].tobytes())["run"] == BODY["run"]


def altered(path: Path, **fields: Any) -> Any:
    return np.frombuffer(json.dumps({**load(path).card, **fields}).encode(), np.uint8)


def test_a_figure_that_was_edited_is_refused(path: Path) -> None:
    rewritten(path, card=altered(path, epsilon=0.1))
    with pytest.raises(ModelFileError, match="the card was altered"):
        load(path)


def test_other_parameters_and_another_schema_are_refused(path: Path) -> None:
    data = path.read_bytes()
    rewritten(path, theta=THETA + 1e-9)
    with pytest.raises(ModelFileError, match="theta is not what the card is about"):
        load(path)
    path.write_bytes(data)
    description = json.dumps({**load(path).description, "more": 1}).encode()
    rewritten(path, description=np.frombuffer(description, np.uint8))
    with pytest.raises(ModelFileError, match="the description is not what"):
        load(path)


def test_a_card_beside_it_that_was_edited_or_exchanged_is_refused(path: Path) -> None:
    beside = card_path(path)
    text = beside.read_text()
    beside.write_text(text.replace("1.78", "0.78"))
    with pytest.raises(ModelFileError, match=r"card\.json: the card was altered"):
        load(path)
    write_model(path.with_name("other.npz"), THETA * 2, manifest(), meaning())
    beside.write_text(card_path(path.with_name("other.npz")).read_text())
    with pytest.raises(ModelFileError, match="another model's card"):
        load(path)
    beside.unlink()
    load(path)


class Bomb:
    def __reduce__(self) -> Any:
        return print, ("executed",)


def test_a_pickle_is_refused_and_never_executed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten(path, theta=np.array([Bomb()], object))
    with pytest.raises(ModelFileError, match="nothing in it was executed"):
        load(path)
    path.write_bytes(b"\x80\x04\x95")
    with pytest.raises(ModelFileError):
        load(path)
    assert "executed" not in capsys.readouterr().out


def test_archives_of_another_shape_are_refused(path: Path) -> None:
    data = path.read_bytes()
    rewritten(path, more=np.zeros(1))
    with pytest.raises(ModelFileError, match="is not a model file"):
        load(path)
    path.write_bytes(data)
    with np.load(io.BytesIO(data)) as found:
        np.savez_compressed(path, **{name: found[name] for name in found.files})
    with pytest.raises(ModelFileError, match="is compressed"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("theta.npy", b"")
    with pytest.raises(ModelFileError, match="is not a model file"):
        load(path)
    path.write_bytes(data[:-40])
    with pytest.raises(ModelFileError):
        load(path)
