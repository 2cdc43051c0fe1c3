"""Fixtures of the tests of a party's page."""

import shutil
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
from tests.support.party_pages import Visitor, finished, waiting
from tests.support.party_process import verified
from tests.support.stage import Stage


def quick(made: Manifest, name: str, rule: Policy, kept: Path) -> tuple[Meaning, Charge]:
    return verified(made.canonical, name, rule)


@pytest.fixture(autouse=True)
def accounted_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting takes seconds in a process of its own: tests/federation/test_meaning.py has that one."""
    for module in (parley.page.costs, parley.party.admission, parley.party.approval, parley.party.report):
        monkeypatch.setattr(module, "verify_apart_with_charge", quick)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that is over and one that waits, whose servers are gone; to be copied."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parley.party.admission, "verify_apart_with_charge", quick)
        made = Stage(tmp_path_factory.mktemp("filled"))
        try:
            finished(made)
            waiting(made)
        finally:
            made.close()
    return made.node


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "party", symlinks=True)


@pytest.fixture
def visitor(stage: Stage) -> Iterator[Visitor]:
    with Visitor(stage.node) as found:
        yield found
