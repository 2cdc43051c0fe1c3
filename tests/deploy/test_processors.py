"""One study on several processors: the same plan and the same model.

Noise is sampled from a seed and sums over records are integers, so nothing differs between processors but how they
round an exponential, which calibration evens out, and in which order they add an algorithm's products. In the default
suite NumPy does without this processor's widest instructions; `make test-long` emulates an ARM, and an x86-64 without
AES instructions.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.emulated import ROOT, arm, intel_without_aes, missing

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
NATIVE = (sys.executable,)
OTHERWISE = ("seconds", "cpu_seconds")
"""What a processor may take its own time for."""
LAST_DIGITS = 1e-12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("study")
    records = ROOT / "deploy" / "parley" / "demo" / "data" / "heart_disease"
    for path in [*(ROOT / "examples" / "own-data").glob("*.toml"), *records.glob("*.csv")]:
        shutil.copy(path, home)
    (home / "script.py").write_text(SCRIPT)
    return home


def said(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def here(folder: Path) -> dict[str, Any]:
    return said(subprocess.run([*NATIVE, "script.py"], cwd=folder, capture_output=True, text=True, check=False))


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


@pytest.mark.slow
def test_without_this_processors_widest_instructions(folder: Path, here: dict[str, Any]) -> None:
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]

    used = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    if not used:
        pytest.skip("NumPy uses nothing beyond its baseline on this processor")
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(used), "OPENBLAS_CORETYPE": "Nehalem"}
    require_same(
        said(
            subprocess.run(
                [*NATIVE, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
        ),
        here,
        exactly=True,
    )


@pytest.mark.long
@pytest.mark.skipif(bool(missing("qemu-x86_64")), reason="Debian's qemu-user is not installed")
def test_on_an_x86_64_without_aes_instructions(folder: Path, here: dict[str, Any]) -> None:
    machine = intel_without_aes()
    found = said(machine.python("script.py", cwd=folder))
    assert not {"aes", "pclmulqdq"} & set(found["features"])
    require_same(found, here, exactly=True)
    refused = machine.python("-m", "parley.cli.main", "demo", cwd=folder)
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "error: this machine has no AES instructions that noise could be made with (it lacks"
    )
    assert not (folder / "parley-demo").exists()


@pytest.mark.long
@pytest.mark.skipif(bool(missing("qemu-aarch64", "apt-get", "dpkg-deb")), reason="no qemu-user, or no Debian")
def test_on_an_arm_from_its_wheel(folder: Path, here: dict[str, Any], tmp_path: Path) -> None:
    """Also the kernels there: AES and products of its own instructions, against plain Python and known answers, and the
    gates that two servers make of them."""
    machine = arm(tmp_path)
    found = said(machine.python("script.py", cwd=folder))
    assert set(found["features"]) == {"aes", "pclmulqdq"}
    require_same(found, here, exactly=False)  # dot products add in another order there
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    modules = [f"tests/mpc/test_{name}.py" for name in ("kernels", "seed_trees", "vectors", "ot_extension", "gates")]
    done = machine.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *modules, cwd=tmp_path)
    print(done.stdout[-500:])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
