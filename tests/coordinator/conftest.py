"""Fixtures of this room's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import parley.coordinator.process
from tests.support.lead import Lead, verified
from tests.support.model_files import path  # noqa: F401  fixtures


@pytest.fixture
def lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lead]:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)
    made = Lead(tmp_path)
    yield made
    made.close()
