"""A party's client in this process, on a stage, with its accounting done once per manifest."""

import threading
from functools import cache
from typing import Self

import numpy as np

from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_with_charge
from parley.learning.contributor import Contributor
from parley.party.admission import Gate
from parley.party.client import PartyClient
from parley.party.data import Shelf, understand
from parley.party.process import party_node, settings_of
from parley.privacy.filters import Charge, Policy
from parley.privacy.ledger import Ledger
from tests.support.stage import PARTY, Stage, question
from tests.support.until import GIVE_UP_SECONDS, until

EVERYONE = {
    "parties.0.sampler": {"kind": "wor", "units": 300, "batch": 300},
    "mechanism.noise_multiplier": 20.0,
}
"""Every record in every round: a contribution without chance."""


@cache
def verified(canonical: bytes, name: str, rule: Policy) -> tuple[Meaning, Charge]:
    return verify_with_charge(Manifest.from_canonical(canonical), name, rule)


class Running:
    """The client, until the block is left."""

    def __init__(self, stage: Stage) -> None:
        self.client = PartyClient(settings_of(party_node(stage.node)))
        self.thread = threading.Thread(target=self.client.serve)
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.thread.join(GIVE_UP_SECONDS)
        assert not self.thread.is_alive()


def contributor(stage: Stage, made: Manifest) -> Contributor:
    settings = settings_of(party_node(stage.node))
    shelf = Shelf(settings)
    sealed = shelf.seals[""].sealed()
    assert sealed is not None
    return shelf.contributor(made, understand(made), PARTY, settings.data[0], sealed)


def charged(stage: Stage, made: Manifest) -> None:
    """The first round is asked and answered, so that the ledger has the run."""
    stage.coordinator.ask(question(made, 0, (np.zeros(made.model.dimension),)))
    stage.opened(0)
    until(lambda: stage.coordinator.requests[-1].after_round == 0)


def ledger(stage: Stage) -> Ledger:
    return Ledger.open(stage.node / "state" / "ledger.sqlite")


def gate_of(stage: Stage) -> Gate:
    settings = settings_of(party_node(stage.node))
    return Gate(settings, PARTY, Shelf(settings))
