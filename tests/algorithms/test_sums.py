"""Sums of products are added in one order, whatever kernels a BLAS would pick on this processor."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from parley.algorithms.sums import combined, inner, norm

rng = np.random.default_rng(3)
LEFT, RIGHT, ROWS = rng.standard_normal(1801), rng.standard_normal(1801), rng.standard_normal((1801, 3))

SCRIPT = """
import json
import numpy as np
from parley.algorithms.sums import combined, inner, norm
rng = np.random.default_rng(3)
left, right, rows = rng.standard_normal(1801), rng.standard_normal(1801), rng.standard_normal((1801, 3))
print(json.dumps([inner(left, right), norm(left), *combined(left, rows).tolist()]))
"""


def test_they_are_the_sums_that_they_say() -> None:
    assert inner(LEFT, RIGHT) == pytest.approx(float(LEFT @ RIGHT), abs=1e-10)
    assert norm(LEFT) == pytest.approx(float(np.linalg.norm(LEFT)), rel=1e-13)
    np.testing.assert_allclose(combined(LEFT, ROWS), LEFT @ ROWS, atol=1e-10)


@pytest.mark.parametrize("kernel", ["Prescott", "Nehalem", "Haswell", "Zen"])
def test_another_processors_blas_changes_no_bit(kernel: str) -> None:
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [inner(LEFT, RIGHT), norm(LEFT), *combined(LEFT, ROWS).tolist()]
