"""Shared by all tests."""

import warnings

import pytest
from hypothesis import settings

import parley.node  # noqa: F401  before any test loads grpc

settings.register_profile("parley", deadline=None)  # no test says how long something may take by the clock on the wall
settings.load_profile("parley")


@pytest.fixture(autouse=True)
def _no_production_and_no_dealer_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may use the dealer; its warning is tested on its own."""
    monkeypatch.delenv("PARLEY_ENV", raising=False)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # what a command sets for its children does not outlive its test
    monkeypatch.delenv("PYTHONSAFEPATH")
    warnings.filterwarnings("ignore", message="INSECURE dealer")
