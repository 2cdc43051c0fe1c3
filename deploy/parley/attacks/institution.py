"""An institution to try a coordinator's manifests on: a real node folder, its real gate, and what is heard of it."""

import contextlib
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.manifest import Manifest
from parley.federation.meaning import answered, charged, keep
from parley.federation.names import NodeName, Role
from parley.learning.contributor import Contributor, Query
from parley.learning.fit import Fit
from parley.node.authority import ThrowAwayAuthority
from parley.node.endings import sign_admission
from parley.party.admission import Gate, Ready, Waiting
from parley.party.data import Shelf
from parley.party.errors import RefusedRunError, refused
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node

PARTY = NodeName("cardio", Role.party, "hospital-a")
UNITS = 100
WAITS = "nothing is heard"
JOINS = "joins"

BODY: dict[str, Any] = {
    "protocol": 2,
    "run": "heart-1",
    "federation": "cardio",
    "model": {"kind": "logistic", "dimension": 6},
    "algorithm": {"name": "dp-sgd"},
    "regulariser": {},
    "schema": {
        "features": [
            {"name": "age", "low": 20.0, "high": 90.0},
            {"name": "pulse", "low": 30.0, "high": 220.0},
            {"kind": "category", "name": "pain", "categories": ["typical", "atypical", "none"]},
        ],
        "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "intercept": True,
    },
    "privacy": {"epsilon": 2.0, "delta": 1e-5, "accountant": "pld"},
    "mechanism": {
        "clip": {"kind": "gradient", "norm": 1.0},
        "noise_multiplier": 20.0,
        "steps": 2,
        "relation": "replace-one",
    },
    "parties": [
        {"name": "hospital-a", "sampler": {"kind": "wor", "units": UNITS, "batch": UNITS}},
        {"name": "hospital-b", "sampler": {"kind": "wor", "units": UNITS, "batch": UNITS}},
    ],
    "noise": {"cover": "strips", "precision": "high", "fraction_bits": 14, "security": "semi-honest", "own": 0.5},
    "rounds": {"minimum_parties": 2, "deadline_seconds": 30.0},
    "aggregators": [
        {"name": "north", "legal_entity": "North Trust"},
        {"name": "south", "legal_entity": "South Foundation"},
    ],
    "coordinator": {"name": "lead", "legal_entity": "University Hospital"},
}
SCHEMA = f"""
units = {UNITS}
features = [
    {{ name = "age", low = 20.0, high = 90.0 }},
    {{ name = "pulse", low = 30.0, high = 220.0 }},
    {{ kind = "category", name = "pain", categories = ["typical", "atypical", "none"] }},
]
target = {{ name = "sick", kind = "binary", positive = ["1"], negative = ["0"] }}
"""
POLICY = """
role = "party"
epsilon_per_run = 2.0
delta_per_run = 1e-5
epsilon_total = 4.0
epsilon_if_a_server_lies_per_run = "any"
epsilon_if_a_server_lies_total = "any"
minimum_parties = 2
largest_parties = 100
largest_dimension = 1000
largest_rounds = 100
largest_manifest_bytes = 1_000_000
unit_column = ""
models = ["logistic"]
algorithms = ["dp-sgd"]
coordinators = ["lead"]
[aggregators]
north = "North Trust"
south = "South Foundation"
"""


def manifest(**changes: Any) -> Manifest:
    """BODY with values at dotted paths replaced, such as `manifest(**{"schema.features.0.high": 91.0})`."""
    body = copy.deepcopy(BODY)
    for path, value in changes.items():
        *way, last = path.split(".")
        place: Any = body
        for step in way:
            place = place[int(step)] if step.isdigit() else place[step]
        place[int(last) if last.isdigit() else last] = value
    return Manifest.from_json(body)


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
        schema: str = SCHEMA,
        policy: str = POLICY,
    ) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True)
        authority = ThrowAwayAuthority("cardio")
        self._servers = [authority.issue_as(NodeName("cardio", Role.aggregator, name)) for name in ("north", "south")]
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
        (self.folder / "node.toml").write_text(
            'role = "party"\ncoordinator = "lead@127.0.0.1:1"\n'
            '[aggregators]\nnorth = "127.0.0.1:2"\nsouth = "127.0.0.1:3"\n'
            f'[data]\nfiles = ["records.csv"]\nschema = "schema.toml"\npopulation = "{population}"\n'
            "[budget]\nepsilon = 2.0\ndelta = 2e-5\n"
        )

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
