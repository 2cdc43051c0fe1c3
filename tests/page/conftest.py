"""Fixtures of the tests of a party's page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import parley.page.costs
import parley.party.admission
import parley.party.approval
import parley.party.report
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.privacy.filters import Charge, Policy
from tests.support.party_pages import Visitor
from tests.support.party_process import verified
from tests.support.stage import Stage


@pytest.fixture(autouse=True)
def accounted_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting takes seconds in a process of its own: tests/federation/test_meaning.py has that one."""

    def quick(made: Manifest, name: str, rule: Policy, kept: Path) -> tuple[Meaning, Charge]:
        return verified(made.canonical, name, rule)

    for module in (parley.page.costs, parley.party.admission, parley.party.approval, parley.party.report):
        monkeypatch.setattr(module, "verify_apart_with_charge", quick)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


@pytest.fixture
def visitor(stage: Stage) -> Iterator[Visitor]:
    with Visitor(stage.node) as found:
        yield found
