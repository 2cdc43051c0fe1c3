"""One study of real records, run by other processes: what it plans, trains and predicts, to be compared."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json
from parley import study
from parley.mpc.processor import processor_features

s = study.read("study.toml")
plan = s.plan()
result = s.simulate(seeds=2, repeatable=True)
result.save("model.npz")
model = study.load("model.npz")
print(json.dumps({
    "features": sorted(processor_features()),
    "noise": plan.noise_multiplier,
    "epsilon": plan.epsilon,
    "rounds": plan.rounds,
    "theta": model.theta.tolist(),
    "figures": result.as_json()["mean"],
    "probabilities": model.predict_proba("test.csv").tolist(),
}))
"""
OTHERWISE = ("seconds", "cpu_seconds")
"""What a processor may take its own time for."""
LAST_DIGITS = 1e-12


def written(home: Path) -> Path:
    """The folder, with records, study and script.py."""
    records = ROOT / "deploy" / "parley" / "demo" / "data" / "heart_disease"
    for path in [*(ROOT / "examples" / "own-data").glob("*.toml"), *records.glob("*.csv")]:
        shutil.copy(path, home)
    (home / "script.py").write_text(SCRIPT)
    return home


def said(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def require_same(found: dict[str, Any], here: dict[str, Any], exactly: bool) -> None:
    """Decisions are equal, and so is the model; figures are, but for the digits in which sums are rounded."""
    for name in ("noise", "rounds", *(["theta"] if exactly else [])):
        assert found[name] == here[name], name
    np.testing.assert_allclose(found["theta"], here["theta"], rtol=LAST_DIGITS)
    assert found["epsilon"] == pytest.approx(here["epsilon"], rel=LAST_DIGITS)
    for name, value in here["figures"].items():
        if name not in OTHERWISE and isinstance(value, float):
            assert found["figures"][name] == pytest.approx(value, rel=1e-9, abs=LAST_DIGITS), name
    np.testing.assert_allclose(found["probabilities"], here["probabilities"], rtol=LAST_DIGITS)
