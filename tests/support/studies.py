"""A study on made-up records."""

from pathlib import Path

import numpy as np
import pytest

STUDY = """
[data]
train = ["train.csv"]
parties = 3
test = ["test.csv"]
[schema]
intercept = true
features = [
  { name = "a", low = -2.0, high = 2.0 },
  { name = "b", low = -2.0, high = 2.0 },
  { name = "c", kind = "category", categories = ["x", "y"] },
]
target = { name = "ill", kind = "binary", positive = ["1"], negative = ["0"] }
[model]
kind = "logistic"
[algorithm]
name = "ALGORITHM"
[privacy]
epsilon = 2.0
delta = 1e-5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(11)
    for name, count in (("train.csv", 3000), ("test.csv", 1000)):
        a, b, c = rng.normal(0, 1, count), rng.normal(0, 1, count), rng.integers(0, 2, count)
        ill = rng.random(count) < 1 / (1 + np.exp(-(2 * a - b + c - 0.5)))
        rows = [f"{x},{y},{'xy'[z]},{int(w)}" for x, y, z, w in zip(a, b, c, ill, strict=True)]
        (tmp_path / name).write_text("\n".join(["a,b,c,ill", *rows]) + "\n")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path
