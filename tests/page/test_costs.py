"""What a run costs: computed once, in the background, and a refusal is said."""

import asyncio
from pathlib import Path

import pytest

import parley.page.costs
from parley.federation.errors import FederationError
from parley.page.costs import Costs
from parley.page.process import page_node
from parley.party.process import settings_of
from parley.privacy.filters import Policy
from tests.support.documents import manifest
from tests.support.party_process import verified


def test_it_is_computed_once_and_a_page_does_not_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def slow(made: object, name: str, rule: Policy, kept: Path) -> object:
        asked.append(name)
        return verified(manifest().canonical, name, rule)

    monkeypatch.setattr(parley.page.costs, "verify_apart_with_charge", slow)

    async def both() -> None:
        costs = Costs(settings_of(page_node(folder)), "hospital-a")
        assert costs.of(manifest(), Policy()) is None
        while (found := costs.of(manifest(), Policy())) is None:
            await asyncio.sleep(0.01)
        assert found.known
        assert found.charge is not None
        assert asked == ["hospital-a"]
        await costs.close()

    asyncio.run(both())


def test_why_it_cannot_be_computed_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> object:
        raise FederationError("scipy is not installed here")

    monkeypatch.setattr(parley.page.costs, "verify_apart_with_charge", fails)

    async def once() -> None:
        costs = Costs(settings_of(page_node(folder)), "hospital-a")
        while (found := costs.of(manifest(), Policy())) is None:
            await asyncio.sleep(0.01)
        assert (found.known, found.problem) == (False, "scipy is not installed here")
        await costs.close()

    asyncio.run(once())
