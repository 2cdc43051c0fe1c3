"""A stranger's first minute: a fresh environment, the wheel, an unseen file, the first lines of Python in README.md."""

import csv
import lzma
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parley.study import load

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "sba-loans" / "SBAcase.11.13.17.csv.xz"
NUMBERS = {"NoEmp": 60, "CreateJob": 25, "DisbursementGross": 1_200_000, "Portion": 1}
"""Columns, and up to where their values go; some beyond what the lines expect"""
WORDS = {"UrbanRural": "012", "RevLineCr": ["Y", "N", "0", "T"], "LowDoc": ["Y", "N", "S", "A"], "RealEstate": "01"}
GAPS = 0.05
ROWS = 2000
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


def lines() -> str:
    """The first Python that a reader of the README meets."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def made_up(path: Path) -> None:
    """Numbers and words with gaps, words that nobody has listed, and an answer that some of them tell."""
    draw = random.Random(int.from_bytes(os.urandom(8)))
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*NUMBERS, *WORDS, "Default"])
        for _ in range(ROWS):
            portion = draw.random()
            cells = [str(draw.randrange(high)) for high in list(NUMBERS.values())[:-1]]
            cells += [f"{portion:.2f}", *(draw.choice(words) for words in WORDS.values())]
            cells = ["" if draw.random() < GAPS else cell for cell in cells]
            table.writerow([*cells, int(draw.random() < 0.1 + 0.8 * portion)])


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel for a study, and nothing else."""
    folder = tmp_path_factory.mktemp("stranger")
    subprocess.run(
        [sys.executable, "-m", "build", "-q", "--wheel", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python.parents[1]], check=True)
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", f"{wheel}[study]"], check=True)
    print(f"installed in {time.monotonic() - begun:.1f} s")
    return python


def test_they_are_ten() -> None:
    written = [line for line in lines().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(written) <= 10
    assert all(len(line) <= 130 for line in written)


@pytest.mark.parametrize("records", ["made up", "real"])
def test_they_make_a_model_and_a_picture_at_epsilon_1(stranger: Path, tmp_path: Path, records: str) -> None:
    if records == "real":
        if not REAL.exists():
            pytest.skip(f"{REAL.name} is not beside the repository")
        (tmp_path / "loans.csv").write_bytes(lzma.decompress(REAL.read_bytes()))
    else:
        made_up(tmp_path / "loans.csv")
    (tmp_path / "first.py").write_text(lines())
    begun = time.monotonic()
    done = subprocess.run(
        [stranger, "-P", "first.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(f"{records}: {time.monotonic() - begun:.1f} s\n{done.stdout}")
    assert "epsilon 1 at delta 1e-05" in done.stdout
    assert "Not private" in done.stdout
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    model = load(tmp_path / "model.npz")
    assert model.card["epsilon"] <= 1
    asked = dict.fromkeys([*NUMBERS, *WORDS], "1")
    ((no, yes),) = model.predict_proba([asked])
    assert 0 < yes < 1
    assert no + yes == pytest.approx(1)
    subprocess.run([stranger.with_name("parley"), "--version"], cwd=tmp_path, check=True, capture_output=True)
