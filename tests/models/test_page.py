"""docs/schema.md shows a package with an extractor: it is one."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from parley.learning.transforms import Extractor
from parley.models.extractor_spec import run_here
from tests.docs.pages import ROOT, Page

pytestmark = pytest.mark.slow


def test_the_extractor_of_the_page_gives_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = [each for each in Page(ROOT / "docs/schema.md").code_blocks if "def extract(" in each]
    package = tmp_path / "hospital_of_the_page"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "features.py").write_text(source)
    weights = np.random.default_rng(4).normal(size=(3072, 1600)).astype(np.float32)
    (package / "weights.bin").write_bytes(weights.tobytes())
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = "torch:hospital_of_the_page.features:extract"
    found = Extractor(kind, (3, 32, 32), 1600, "nothing", "this test")
    images = np.random.default_rng(5).random((3, 3, 32, 32), np.float32)
    due = np.maximum(images.reshape(3, -1) @ weights, 0)
    assert np.abs(run_here()(found, images) - due).max() < 1e-2
