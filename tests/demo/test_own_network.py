"""A user's own package, outside the repository, trained by the demonstration after one line of its study changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parley.demo.heart_data import bundled

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "examples" / "own-network" / "hospital_models"
KIND = "torch:hospital_models.nets:build"


def test_a_users_package_is_trained_by_changing_one_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    installed, home = tmp_path / "site", tmp_path / "heart"
    shutil.copytree(EXAMPLE, installed / EXAMPLE.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(bundled(), home)
    study = home / "study.toml"
    lines = study.read_text().splitlines()
    changed = [f'kind = "{KIND}"' if line == 'kind = "logistic"' else line for line in lines]
    assert sum(before != after for before, after in zip(lines, changed, strict=True)) == 1
    study.write_text("\n".join(changed) + "\n")
    parley = Path(sys.executable).with_name("parley")
    done = subprocess.run(
        [parley, "demo", "--study", study, "--output", tmp_path / "made", "--json"],
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["epsilon"] <= 1.5
    assert told["rounds"] == 10
    assert told["auc"] > 0.7  # fresh noise: seldom below 0.82
    assert Path(told["model"]).is_file()
    # Nothing of the package was written, and none of it is in the model file but its name and digest.
    assert not list(installed.rglob("__pycache__"))
