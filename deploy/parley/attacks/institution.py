"""An institution to try a coordinator's manifests on: a real node folder, its real gate, and what is heard of it."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.attacks import documents
from parley.attacks.documents import FEDERATION, PARTY, SERVERS, UNITS
from parley.federation.manifest import Manifest
from parley.federation.meaning import answered, charged, keep
from parley.learning.contributor import Contributor, Query
from parley.learning.fit import Fit
from parley.node.authority import ThrowAwayAuthority
from parley.node.endings import sign_admission
from parley.party.admission import Gate, Ready, Waiting
from parley.party.data import Shelf
from parley.party.errors import RefusedRunError, refused
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node

WAITS = "nothing is heard"
JOINS = "joins"

FEATURES = (*documents.FEATURES, {"kind": "category", "name": "pain", "categories": ["typical", "atypical", "none"]})


def manifest(**changes: Any) -> Manifest:
    """Of three columns, with values at dotted paths replaced."""
    return documents.manifest(**{"schema.features": list(FEATURES), "model.dimension": 6, **changes})


def rows(count: int = UNITS) -> list[str]:
    """Harmless records: age, pulse, pain, sick."""
    pains = ("typical", "none")
    return [f"{25 + n % 60},{50 + n % 120},{pains[n % 2]},{n % 2}" for n in range(count)]


class Institution:
    """A party's folder, as its operator made it."""

    def __init__(
        self,
        folder: Path,
        records: Sequence[str] = (),
        header: str = "age,pulse,pain,sick",
        schema: str = documents.schema_text(features=FEATURES),
        policy: str = documents.policy_text(),
    ) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True)
        authority = ThrowAwayAuthority(FEDERATION)
        self._servers = [authority.issue_as(name) for name in SERVERS]
        authority.install(folder / "identity", PARTY)
        (folder / "schema.toml").write_text(schema)
        (folder / "policy.toml").write_text(policy)
        self.write(records or rows(), header)
        self.name_population("patients")

    def write(self, records: Sequence[str], header: str = "age,pulse,pain,sick") -> None:
        """Other records."""
        (self.folder / "records.csv").write_text("\n".join([header, *records]) + "\n")

    def name_population(self, population: str) -> None:
        """In node.toml."""
        documents.write_party(self.folder, population=population, budget=(2.0, 2e-5))

    def seal(self) -> Fit:
        """As its operator does."""
        return seal_node(self.folder)

    def gate(self) -> Gate:
        """What decides on manifests in its process."""
        settings = settings_of(party_node(self.folder))
        settings.state.mkdir(mode=0o700, exist_ok=True)
        return Gate(settings, PARTY, Shelf(settings))

    def heard(self, made: Manifest) -> str:
        """All that the coordinator hears until the first round: this party joins, refuses, leaves or is silent."""
        gate = self.gate()
        try:
            self._verify(gate, made)
            found = gate.decide(made)
            if isinstance(found, Waiting):
                return WAITS
            try:
                gate.contributor(made, found)
            except RefusedRunError as refusal:
                return f"joins, then leaves: {refusal}"
            return JOINS
        except RefusedRunError as refusal:
            return f"refuses: {refusal}"
        finally:
            gate.close()

    def asked(self, made: Manifest) -> None:
        """It joins, and is asked the first round: that is when its ledger is charged."""
        with contextlib.closing(self.gate()) as gate:
            self._verify(gate, made)
            ready = gate.decide(made)
            if isinstance(ready, Ready):
                words = [sign_admission(server, made.digest) for server in self._servers]
                gate.charge(made, ready, words, self._servers[0].pins)

    def contribution(self, made: Manifest, point: NDArray[np.float64]) -> NDArray[np.int64]:
        """The sum of its terms in round 0, that of an admitted run."""
        gate = self.gate()
        try:
            self._verify(gate, made)
            found = gate.decide(made)
            if isinstance(found, Waiting):
                raise refused("policy", WAITS)
            contributor: Contributor = gate.contributor(made, found)
            return contributor.contribution(Query(0, (point,)))
        finally:
            gate.close()

    def spent(self) -> float:
        """Epsilon over all runs and populations."""
        gate = self.gate()
        try:
            return sum(each.spent.epsilon for each in gate.ledger.populations.values())
        finally:
            gate.close()

    @staticmethod
    def _verify(gate: Gate, made: Manifest) -> None:
        """What its process apart would compute, here: an attack has seconds."""
        words = charged(PARTY.name, gate.ledger.policy)
        keep(gate.settings.verified, made, words, answered(made, words))
