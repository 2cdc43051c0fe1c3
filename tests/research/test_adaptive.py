"""The adaptive experiment."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from tests.support.experiments import FIELDS


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IDX files in MNIST's shape: 2,000 images to learn from, whose label is which rows are bright."""
    import gzip
    import struct

    path = tmp_path_factory.mktemp("digits")
    (path / "mnist").mkdir()
    rng = np.random.default_rng(9)
    for name, count in (("train", 2000), ("t10k", 60)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 40, (count, 28, 28)).astype(np.uint8)
        images[np.arange(count), 2 * labels] = 255
        with gzip.open(path / f"mnist/{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">HBBIII", 0, 8, 3, count, 28, 28) + images.tobytes())
        with gzip.open(path / f"mnist/{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">HBBI", 0, 8, 1, count) + labels.tobytes())
    return path


@pytest.mark.slow
def test_adaptive_takes_the_noise_of_the_paper_and_computes_its_epsilon(digits: Path) -> None:
    command = ["reproduce", "adaptive", "--data", str(digits), "--seeds", "1", "--passes", "0.1", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout.strip().splitlines()[-1])["rows"]
    assert [(row["method"], row["sigma"]) for row in rows] == [
        (method, sigma)
        for sigma in (2, 4, 8)
        for method in ("dp-gd", "dp-rmsprop", "dp-adam", "dp-rmsprop-uncapped", "dp-adam-uncapped")
    ]
    for row in rows:
        assert set(row) >= FIELDS
        assert row["accountant"] == "pld"
        assert row["noise_multiplier"] == row["sigma"] / 2  # of the replace-one sensitivity, 2·clip
        assert row["rounds"] == 2
        assert row["epsilon"] > 0
        if row["sigma"] > 2:  # with so few records 100 passes at the smallest noise have no ε
            assert row["epsilon"] < row["epsilon_at_paper_passes"]
            assert row["epsilon_at_paper_passes_add_or_remove"] < row["epsilon_at_paper_passes"]
        assert 0 <= row["test_error"] <= 1
        assert row["paper_epsilon"] == {2: 1.22, 4: 0.57, 8: 0.28}[row["sigma"]]
    assert rows[0]["epsilon"] > rows[5]["epsilon"] > rows[10]["epsilon"]


@pytest.mark.parametrize("wrong", [["--method", "storm"], ["--sigma", "3"]])
def test_adaptive_names_what_it_has(digits: Path, wrong: list[str]) -> None:
    result = CliRunner().invoke(app, ["reproduce", "adaptive", "--data", str(digits), *wrong])
    assert result.exit_code != 0
    assert "use one of" in result.output


def test_the_staircase_falls_to_a_tenth_after_every_30_of_100_epochs() -> None:
    from parley.algorithms.schedules import Schedule

    schedule = Schedule(0.1, "staircase")
    steps = [schedule.at(epoch, 100) for epoch in (0, 29, 30, 59, 60, 89, 90, 99)]
    assert steps == pytest.approx([0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4])
