"""The experiments' tables on miniature files: every row runs, and carries the fields that scripts rely on."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.research.experiments import tables

FIELDS = {
    "method", "epsilon", "accountant", "parties", "passes", "test_loss", "test_loss_std", "test_error", "gradient_norm",
    "cpu_seconds", "seeds", "paper_test_loss",
}  # fmt: skip


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


@pytest.mark.parametrize("method", ["ddp-srm", "auto", "dp-srm-paper-adaptive", "dp-gd", "dp-agd", "storm"])
def test_a_row_of_table_2_has_every_field(folder: Path, method: str) -> None:
    command = ["reproduce", "a9a", "--data", str(folder), "--seeds", "2", "--method", method, "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout.strip().splitlines()[-1])["rows"]
    assert [row["epsilon"] for row in rows] == [0.2, 0.5]
    for row in rows:
        assert set(row) >= FIELDS
        assert row["seeds"] == 2
        assert row["accountant"] == ("none" if method == "storm" else "pld")
        if method == "ddp-srm":
            assert row["parties"] == 10
            assert row["passes"] <= 5.01
            assert row["noise_by_accountant"]["rdp"] > row["noise_by_accountant"]["pld"]
            assert "Lemma 3.7" in row["noise_by_accountant"]["paper"]
            by = row["test_loss_by_accountant"]
            assert by["pld"] == row["test_loss"]
            assert by["rdp"] > 0
            assert by["paper"] is None
            assert row["paper_test_loss"] in tables.DATA_SETS["a9a"].paper["ddp-srm"]


def test_a_folder_without_the_data_is_one_line(tmp_path: Path) -> None:
    from parley.study.errors import RunFileError

    with pytest.raises(RunFileError, match=r"a9a/a9a\.xz is not in the folder"):
        tables.reproduce("a9a", tmp_path, 1, (), print)


def test_a_figure_has_a_curve_per_method_and_epsilon(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.research.experiments.figures.METHODS", ("dp-gd", "rrpsgd"))
    command = ["reproduce", "figures", "--data", str(folder), "--out", str(tmp_path), "--seeds", "2", "--only", "a9a"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    curves = json.loads(result.stdout.strip().splitlines()[-1])["figures"]["a9a"]
    assert [(each["method"], each["epsilon"]) for each in curves] == [
        ("dp-gd", 0.2), ("rrpsgd", 0.2), ("dp-gd", 0.5), ("rrpsgd", 0.5)
    ]  # fmt: skip
    for each in curves:
        assert len(each["passes"]) == len(each["objective"]) == len(each["gradient_norm"]) > 3
        assert each["passes"] == sorted(each["passes"])
    assert (tmp_path / "figure-1.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "figure-1.json").read_text())["curves"] == curves


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
