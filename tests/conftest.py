"""Shared by all tests."""

import warnings

import pytest
from hypothesis import settings

import parley.node  # noqa: F401  before any test loads grpc

# No test says how long something may take by the clock on the wall. The examples of a test are the same in every run:
# what new ones find is for somebody who looks for it (`make test-long`), and fails no run on something else.
settings.register_profile("parley", deadline=None, derandomize=True)
settings.register_profile("anew", deadline=None, derandomize=False)
settings.load_profile("parley")


@pytest.fixture(autouse=True)
def _no_production_and_no_dealer_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may use the dealer; its warning is tested on its own."""
    monkeypatch.delenv("PARLEY_ENV", raising=False)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # what a command sets for its children does not outlive its test
    monkeypatch.delenv("PYTHONSAFEPATH")
    warnings.filterwarnings("ignore", message="INSECURE dealer")
