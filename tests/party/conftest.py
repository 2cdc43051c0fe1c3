"""Fixtures of the tests of a party."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import parley.party.admission
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.privacy.filters import Charge, Policy
from tests.support.examined import party, ports  # noqa: F401  fixtures
from tests.support.histories import world  # noqa: F401  fixtures
from tests.support.party_process import verified
from tests.support.stage import Stage


@pytest.fixture
def verified_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting takes seconds in a process of its own; tests/federation/test_meaning.py has that."""

    def quick(made: Manifest, name: str, rule: Policy, kept: Path) -> tuple[Meaning, Charge]:
        assert kept.parts[-2:] == ("state", "verified")
        return verified(made.canonical, name, rule)

    monkeypatch.setattr(parley.party.admission, "verify_apart_with_charge", quick)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()
