"""A party's process stays light: its share of a9a, a contributor and some rounds in at most 120 MB resident."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "party_memory.py"
LARGEST = 120e6 / 2**20


def test_one_partys_process_is_at_most_120_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        " ".join(["+1" if row % 4 else "-1", *(f"{column}:1" for column in np.sort(rng.permutation(123)[:14]) + 1)])
        for row in range(32_561)
    ]
    path = tmp_path / "a9a.txt"
    path.write_text("\n".join(lines) + "\n")
    found = subprocess.run(
        [sys.executable, str(BENCHMARK), str(path), "--parties", "10"],
        capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    measured = json.loads(found.stdout)
    assert measured["records"] == 3257
    assert measured["resident_mib"] <= LARGEST
    assert measured["peak_mib"] <= LARGEST
