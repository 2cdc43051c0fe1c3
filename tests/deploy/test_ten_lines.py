"""A stranger's first minute: a fresh environment, the wheel, an unseen file, the first lines of Python in README.md."""

import lzma
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.docs.loans import COLUMNS, REAL, made_up_loans
from tests.docs.pages import ROOT

from parley.study import load

ROWS = 2000
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


def lines() -> str:
    """The first Python that a reader of the README meets."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


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
        made_up_loans(tmp_path / "loans.csv", ROWS)
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
    asked = dict.fromkeys(COLUMNS, "1")
    ((no, yes),) = model.predict_proba([asked])
    assert 0 < yes < 1
    assert no + yes == pytest.approx(1)
    subprocess.run([stranger.with_name("parley"), "--version"], cwd=tmp_path, check=True, capture_output=True)
