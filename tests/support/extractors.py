"""A user's package with a frozen extractor, installed beside a test."""

from pathlib import Path

import pytest

from parley.learning.transforms import Extractor

GOOD = """
from functools import cache
from pathlib import Path

import torch


@cache
def weights():
    held = torch.frombuffer(bytearray(Path(__file__).with_name("weights.bin").read_bytes()), dtype=torch.uint8)
    return held.float().reshape(64, 4) / 255 - 0.5


def extract(images):
    return torch.tanh(images.flatten(1) @ weights())
"""
SHAPE, COLUMNS = (1, 8, 8), 4


def installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str = GOOD, package: str = "hospital_features"
) -> Extractor:
    """Found by this process and by those that it starts; without a digest."""
    place = folder / package
    place.mkdir(parents=True, exist_ok=True)
    (place / "__init__.py").write_text(source)
    (place / "weights.bin").write_bytes(bytes(range(256)))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return Extractor(f"torch:{package}:extract", SHAPE, COLUMNS, "CIFAR-100", "Dr. Ada Osei")
