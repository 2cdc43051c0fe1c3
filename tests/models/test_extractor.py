"""An extractor sees one record at a time; what could mix records, draw or look at values is refused beforehand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from parley.learning.errors import ModelError
from parley.models.extractor import CHUNK, Opened
from parley.models.extractor_spec import extractor_digest, run_here
from tests.support.extractors import COLUMNS, SHAPE, installed

pytestmark = pytest.mark.slow

IMAGES = np.random.default_rng(2).random((CHUNK + 9, *SHAPE), np.float32)


def source(body: str, before: str = "") -> str:
    lines = "\n    ".join(body.split("\n"))
    return f"import torch\nfrom torch import nn\n{before}\n\ndef extract(x):\n    {lines}\n"


def test_features_are_what_the_code_makes_of_each_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = installed(tmp_path, monkeypatch)
    opened = Opened.of(replace(found, digest=extractor_digest(found)))
    assert opened.route == "vmap"
    weights = np.arange(256, dtype=np.float32).reshape(64, COLUMNS) / 255 - 0.5
    assert np.abs(opened(IMAGES) - np.tanh(IMAGES.reshape(-1, 64) @ weights)).max() < 1e-5
    assert np.array_equal(run_here()(found, IMAGES), opened(IMAGES))
    assert opened.seconds_per_chunk() > 0
    assert opened(IMAGES[:0]).shape == (0, COLUMNS)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e30, 1e-42, 0.0])
def test_no_record_changes_a_bit_of_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    opened = Opened.of(installed(tmp_path, monkeypatch))
    before, changed = opened(IMAGES), IMAGES.copy()
    changed[3] = value
    after = opened(changed)
    assert np.array_equal(np.delete(before, 3, 0), np.delete(after, 3, 0))


def test_a_record_that_the_code_fails_on_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "TABLE = nn.Embedding(2, 4).requires_grad_(False)"
    code = source("return TABLE(x[:, 0, 0, 0].long())", table)
    opened = Opened.of(installed(tmp_path, monkeypatch, code, "hospital_tables"))
    images = IMAGES.copy()
    before = opened(images)
    images[5, 0, 0, 0] = 7
    passes, compute = [], opened._compute

    def counted(rows: Any) -> Any:
        passes.append(len(rows))
        return compute(rows)

    monkeypatch.setattr(opened, "_compute", counted)
    after = opened(images)
    assert np.isnan(after[5]).all()
    assert np.array_equal(np.delete(before, 5, 0), np.delete(after, 5, 0))
    assert len(passes) == 2 + 2 * np.log2(CHUNK) + 1, "two chunks, halves, and the rest once more: a slot has room"


def test_a_mean_over_the_batch_sees_one_record_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = source("return (x - x.mean(0)).flatten(1)[:, :4] + x.flatten(1)[:, 4:8]")
    opened = Opened.of(installed(tmp_path, monkeypatch, code, "hospital_means"))
    assert np.allclose(opened(IMAGES), IMAGES.reshape(len(IMAGES), -1)[:, 4:8])


def test_where_a_record_stands_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows of 33 numbers each: vmap's product over a chunk rounds them otherwise at every other place."""
    body = "return torch.tanh(LAST(torch.tanh(FIRST(x.flatten(1)[:, :231].view(len(x), 7, 33)))))[:, :, :4].mean(1)"
    layers = "torch.manual_seed(1)\nFIRST, LAST = nn.Linear(33, 7), nn.Linear(7, 7)"
    found = installed(tmp_path, monkeypatch, source(body, layers), "hospital_rows")
    opened = Opened.of(replace(found, shape=(1, 16, 16)))
    images = np.random.default_rng(2).random((CHUNK + 9, 1, 16, 16), np.float32)
    for by in (1, 2, 3, 7, 11):
        assert np.array_equal(opened(np.roll(images, by, 0)), np.roll(opened(images), by, 0))


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("kept", source("SEEN[:] = [x.sum()]\nreturn x.flatten(1)[:, :4]", "SEEN = []"), "keeps something of a record"),
        ("drawn", source("return x.flatten(1)[:, :4] + torch.rand(1, 4)"), "second time"),
        ("dropped", source("return nn.functional.dropout(x.flatten(1)[:, :4])"), "second time"),
        ("looked", source("y = x.flatten(1)[:, :4]\nreturn y if y.sum().item() > 0 else -y"), "torch.where"),
        ("branched", source("y = x.flatten(1)[:, :4]\nreturn y if (y > 0.5).any() else -y"), "torch.where"),
        ("wide", source("return x.flatten(1)"), r"\(records, 4\)"),
        (
            "caught",
            source(
                "y = x.flatten(1)[:, :4]\ntry:\n    return y * (x.sum() > 40).item()\nexcept Exception:\n    return y"
            ),
            "torch.where",
        ),
        ("raised", source("raise ValueError('no')"), "fails on public inputs"),
        ("endless", source("return x.flatten(1)[:, :4] / 0"), "not finite"),
        ("counted", source("SEEN.append(0)\nreturn x.flatten(1)[:, :4] + len(SEEN)", "SEEN = []"), "second time"),
        ("absent", "import torch\n", "no function extract"),
        ("broken", "import nothing_of_this_name\n", "cannot be imported"),
    ],
)
def test_what_is_not_a_function_of_one_record_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        Opened.of(installed(tmp_path, monkeypatch, code, f"hospital_{name}"))


def test_other_bytes_than_agreed_on_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    found = installed(tmp_path, monkeypatch, code, "hospital_other")
    with pytest.raises(ModelError, match="was agreed on"):
        Opened.of(replace(found, digest="sha256:" + "0" * 64))
    assert not (tmp_path / "ran").exists()
