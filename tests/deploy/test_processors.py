"""One study on several processors: the same plan and the same model.

Noise is sampled from a seed and sums over records are integers, so nothing differs between processors but how they
round an exponential, which calibration evens out, and in which order they add an algorithm's products. In the default
suite NumPy does without this processor's widest instructions; `make test-long` emulates an ARM, an x86-64 without
AES instructions, and two servers of which one or both are ARMs. Emulation says what is computed, and nothing of how
fast: no figure is taken there.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulated import ROOT, Machine, arm, intel_without_aes, missing, without_aes
from tests.support.one_study import require_same, said, written
from tests.support.until import GIVE_UP_SECONDS

from parley.bench.noise_turns import NAMES
from parley.node.authority import ThrowAwayAuthority

NATIVE = (sys.executable,)
ON_ARM = ("kernels", "seed_trees", "clip_sums", "vectors", "ot_extension", "gates")
LANES = "2048"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def here(folder: Path) -> dict[str, Any]:
    return said(subprocess.run([*NATIVE, "script.py"], cwd=folder, capture_output=True, text=True, check=False))


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
@pytest.mark.skipif(bool(missing("x86_64")), reason=f"not installed: {missing('x86_64')}")
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


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if absent := missing("aarch64", "apt-get", "dpkg-deb"):
        pytest.skip(f"not installed: {absent}")
    return arm(tmp_path_factory.mktemp("arm"))


@pytest.mark.long
def test_on_an_arm_from_its_wheel(machine: Machine, folder: Path, here: dict[str, Any], tmp_path: Path) -> None:
    """Also the kernels there: AES and products of its own instructions, against the standard's known answers, plain
    Python and our vectors; and the gates that two servers make of them."""
    found = said(machine.python("script.py", cwd=folder))
    assert set(found["features"]) == {"aes", "pclmulqdq"}
    require_same(found, here, exactly=False)  # dot products add in another order there
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    modules = [f"tests/mpc/test_{name}.py" for name in ON_ARM]
    done = machine.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *modules, cwd=tmp_path)
    print(done.stdout[-500:])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.long
def test_two_servers_on_any_two_processors_make_the_same_batch(machine: Machine, tmp_path: Path) -> None:
    """Two processes over gRPC and TLS: what each says, hears and holds, byte for byte."""
    here = Machine((sys.executable,))
    authority = ThrowAwayAuthority()
    for name in NAMES:
        authority.issue(name).save(tmp_path / name)
    known = batch(here, here, tmp_path)
    assert known[0]["sent"] == known[1]["heard"]
    assert known[0]["shares"] != known[1]["shares"]
    for first, second in [(here, machine), (machine, here), (machine, machine)]:
        ends = batch(first, second, tmp_path)
        for at, end, wanted in zip((first, second), ends, known, strict=True):
            there = ("aarch64", "baseline") if at is machine else (wanted["machine"], wanted["kernels"])
            assert (end["machine"], end["kernels"]) == there
            for name in ("session", "sent", "heard", "shares"):
                assert end[name] == wanted[name], name


def batch(first: Machine, second: Machine, folder: Path) -> list[dict[str, Any]]:
    """What servers 0 and 1 did, each on its machine."""
    script = str(ROOT / "tests" / "support" / "noise_end.py")
    with second.started(script, "1", str(folder), LANES, cwd=folder) as b:
        assert b.stdout is not None
        try:
            port = b.stdout.readline().strip()
            a = first.python(script, "0", str(folder), LANES, port, cwd=folder)
            answered, errors = b.communicate(timeout=GIVE_UP_SECONDS)
        finally:
            b.kill()
    assert (a.returncode, b.returncode) == (0, 0), a.stderr[-2000:] + errors[-2000:]
    return [json.loads(a.stdout), json.loads(answered)]


@pytest.mark.long
def test_an_arm_without_aes_instructions_makes_no_noise(
    machine: Machine, folder: Path, here: dict[str, Any], tmp_path: Path
) -> None:
    """Its Linux says that it has none (QEMU's processors all have them); the kernels that need them are there."""
    without = without_aes(machine, tmp_path)
    found = said(without.python("script.py", cwd=folder))
    assert found["features"] == []
    require_same(found, here, exactly=False)
    for command in (["-m", "parley.cli.main", "demo"], ["-c", "from parley.mpc.kernels import kernels; kernels()"]):
        refused = without.python(*command, cwd=folder)
        assert refused.returncode in (1, 2)
        assert "this machine has no AES instructions that noise could be made with (it lacks aes" in refused.stderr
    assert not (folder / "parley-demo").exists()
