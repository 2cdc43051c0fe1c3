"""Honest rounds, one party against scripted servers: what is uploaded is exactly the encoded contribution."""

import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_with_charge

import party.client.admission
from deploy.nodes_party import read_settings, vocabulary
from party.client.client import PartyClient
from party.client.data import Shelf, understand
from party.contributor import Contributor, Query
from privacy.filters import Charge, Policy
from privacy.ledger import Ledger
from tests.federation.documents import manifest
from tests.federation.stage import PARTY, Stage, question, wait_for

EVERYONE = {
    "parties.0.sampler": {"kind": "wor", "units": 300, "batch": 300},
    "mechanism.noise_multiplier": 20.0,
}
"""Every record in every round: a contribution without chance."""


@cache
def verified(canonical: bytes, party_name: str, filters: Policy) -> tuple[Meaning, Charge]:
    return verify_with_charge(Manifest.from_canonical(canonical), party_name, filters)


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting takes seconds in a process of its own; tests/federation/test_meaning.py has that."""
    monkeypatch.setattr(
        party.client.admission,
        "verify_apart_with_charge",
        lambda made, name, rule: verified(made.canonical, name, rule),
    )


class Running:
    def __init__(self, stage: Stage) -> None:
        self.client = PartyClient(read_settings(stage.node), vocabulary)
        self.thread = threading.Thread(target=self.client.serve)
        self.thread.start()

    def stop(self) -> None:
        self.client.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def contributor(stage: Stage, made: Manifest) -> Contributor:
    settings = read_settings(stage.node)
    return Shelf(settings).contributor(made, understand(made, vocabulary), PARTY)


def ledger(stage: Stage) -> Ledger:
    return Ledger.open(stage.node / "state" / "ledger.sqlite")


def test_shares_add_up_to_the_encoded_contribution_and_the_ledger_knows_of_each(stage: Stage) -> None:
    made = manifest(**EVERYONE)
    expected = contributor(stage, made)
    stage.offer(made)
    running = Running(stage)
    try:
        points = [np.zeros(3), np.array([0.1, -0.2, 0.3]), np.array([0.4, 0.1, -0.3])]
        for index in range(3):
            asked = (points[index], points[index - 1]) if index else (points[0],)
            stage.coordinator.ask(question(made, index, asked))
            found = stage.opened(index)
            assert found.tolist() == expected.contribution(Query(index, asked)).tolist()
            assert np.abs(found).max() > 0
        assert stage.coordinator.joins[0].accepted
        assert len({stage.b.payloads[index] for index in range(3)}) == 3
        wait_for(lambda: stage.coordinator.requests[-1].after_round == 2)
        # Only the new point travels.
        assert len(stage.coordinator.requests[-1].held_points) == 2
        book = ledger(stage)
        assert sorted(book.runs["heart-1"].recorded) == [0, 1, 2]
        stage.finish(stage.ends(made, 3))
        wait_for(lambda: ledger(stage).runs["heart-1"].ended)
    finally:
        running.stop()
