"""Fixtures of the hostile tests."""

import hashlib
from collections.abc import Iterator

import pytest

import parley.coordinator.process
from parley.federation.manifest import Manifest
from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures
from tests.support.lead import Lead, verified


@pytest.fixture(scope="module")
def lead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lead]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)
        made = Lead(tmp_path_factory.mktemp("lead"))
        yield made
        made.close()


@pytest.fixture
def run_name(request: pytest.FixtureRequest) -> str:
    """A fresh one for each test: a run's name is taken once."""
    return "h-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]


@pytest.fixture
def running(lead: Lead, run_name: str) -> Manifest:
    """A run whose first round waits for contributions."""
    return lead.running(run_name)
