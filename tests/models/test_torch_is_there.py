"""The slow suite runs what needs PyTorch and Ray: it fails, and does not skip, where they are absent or are others."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_torch_and_ray_are_installed_for_the_slow_suite() -> None:
    """Isolation of records is tested in one version of torch, which the project names, and holds for no other."""
    pinned = re.search(r'"torch==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned is not None
    assert version("torch").partition("+")[0] == pinned[1]
    assert version("ray")
