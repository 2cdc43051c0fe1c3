"""Data of the paper's experiments, made up."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    (path / "a9a").mkdir()
    rng = np.random.default_rng(4)
    import lzma

    for name, count in (("a9a/a9a.xz", 3000), ("a9a/a9a.t.xz", 400)):
        lines = []
        for _ in range(count):
            columns = np.sort(rng.permutation(123)[:14]) + 1
            label = "+1" if (columns < 40).sum() + rng.normal(0, 1) > 5 else "-1"
            lines.append(" ".join([label, *(f"{column}:1" for column in columns)]))
        with lzma.open(path / name, "wt") as file:
            file.write("\n".join(lines) + "\n")
    return path
