"""The end of a run that failed while it was gathered: both words, at once or when the aggregators are there again."""

import asyncio

import pytest

from parley.coordinator.errors import StateError
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.privacy.ledger import Ledger
from tests.support.lead import SECONDS, Lead, asking, joining


def refuse_all(lead: Lead, run: str) -> Manifest:
    manifest = lead.submit(run)
    for party in manifest.parties:
        lead.stub(party).Join(joining(manifest, False, "no"), timeout=SECONDS)
    lead.until(manifest, State.failed)
    return manifest


def test_a_run_that_no_party_joins_is_settled_by_both_words(lead: Lead) -> None:
    manifest = refuse_all(lead, "nobody")
    assert len(lead.process.runs.all[manifest.digest].ends) == 2
    ledger = Ledger.open(lead.process.node.ledger)
    assert ledger.runs["nobody"].ended
    ledger.close()


def test_without_the_words_it_is_asked_for_them_by_hand_and_at_the_next_start(lead: Lead) -> None:
    for each in lead.servers:
        each.refuse_end = True
    manifest = refuse_all(lead, "unsigned")
    assert not lead.process.runs.all[manifest.digest].ends
    with pytest.raises(StateError, match="have not signed its end"):
        lead._await(lead.process.runs.stop("unsigned", True))
    with pytest.raises(StateError, match="is failed already"):
        lead._await(lead.process.runs.stop("unsigned", False))
    for each in lead.servers:
        each.refuse_end = False
    assert lead._await(lead.process.runs.stop("unsigned", True)) is State.failed
    answer = lead.stub("hospital-a").NextRound(asking(manifest), timeout=SECONDS)
    assert len(answer.ends) == 2
    with pytest.raises(StateError, match="is failed already"):
        lead._await(lead.process.runs.stop("unsigned", True))


def test_a_start_asks_again(lead: Lead) -> None:
    for each in lead.servers:
        each.refuse_end = True
    manifest = refuse_all(lead, "later")
    for each in lead.servers:
        each.refuse_end = False
    lead.restart()

    async def settled() -> None:
        while len(lead.process.runs.all[manifest.digest].ends) < 2:
            await asyncio.sleep(0.05)

    lead._await(asyncio.wait_for(settled(), SECONDS))
