"""What an institution's attackers meet: one manifest, its schema.toml, its policy and its node.toml, with changes."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.federation.manifest import PROTOCOL, Manifest
from parley.federation.names import NodeName, Role
from parley.federation.toml_text import toml_text
from parley.node.data_sets import DataSet
from parley.node.node_file import Address, PartyNode
from parley.node.node_text import write_node

FEDERATION = "cardio"
PARTY, LEAD = NodeName(FEDERATION, Role.party, "hospital-a"), NodeName(FEDERATION, Role.coordinator, "lead")
SERVERS = (NodeName(FEDERATION, Role.aggregator, "north"), NodeName(FEDERATION, Role.aggregator, "south"))
ENTITIES = {"north": "North Trust", "south": "South Foundation"}
UNITS = 100
FEATURES: tuple[dict[str, Any], ...] = (
    {"name": "age", "low": 20.0, "high": 90.0},
    {"name": "pulse", "low": 30.0, "high": 220.0},
)
TARGET = {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]}
BODY: dict[str, Any] = {
    "protocol": PROTOCOL,
    "run": "heart-1",
    "federation": FEDERATION,
    "model": {"kind": "logistic", "dimension": 3},
    "algorithm": {"name": "dp-sgd"},
    "regulariser": {},
    "schema": {"features": list(FEATURES), "target": TARGET, "intercept": True},
    "privacy": {"epsilon": 2.0, "delta": 1e-5, "accountant": "pld"},
    "mechanism": {
        "clip": {"kind": "gradient", "norm": 1.0},
        "noise_multiplier": 20.0,
        "steps": 2,
        "relation": "replace-one",
    },
    "parties": [
        {"name": name, "sampler": {"kind": "wor", "units": UNITS, "batch": UNITS}}
        for name in (PARTY.name, "hospital-b")
    ],
    "noise": {"cover": "strips", "precision": "high", "fraction_bits": 24, "security": "semi-honest", "own": 0.5},
    "rounds": {"minimum_parties": 2, "deadline_seconds": 30.0},
    "aggregators": [{"name": name, "legal_entity": entity} for name, entity in ENTITIES.items()],
    "coordinator": {"name": LEAD.name, "legal_entity": "University Hospital"},
}
POLICY: dict[str, Any] = {
    "role": "party",
    "epsilon_per_run": 2.0,
    "delta_per_run": 1e-5,
    "epsilon_total": 4.0,
    "epsilon_if_a_server_lies_per_run": "any",
    "epsilon_if_a_server_lies_total": "any",
    "minimum_parties": 2,
    "largest_parties": 100,
    "largest_dimension": 1000,
    "largest_rounds": 100,
    "largest_manifest_bytes": 1_000_000,
    "unit_column": "",
    "models": ["logistic"],
    "algorithms": ["dp-sgd"],
    "coordinators": [LEAD.name],
    "aggregators": ENTITIES,
}


def changed(body: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """With values at dotted paths replaced, such as `{"schema.features.0.high": 91.0}`."""
    made = copy.deepcopy(dict(body))
    for path, value in changes.items():
        *way, last = path.split(".")
        place: Any = made
        for step in way:
            place = place[int(step)] if step.isdigit() else place[step]
        place[int(last) if last.isdigit() else last] = copy.deepcopy(value)  # a later path may lie in it
    return made


def manifest(**changes: Any) -> Manifest:
    """BODY with values at dotted paths replaced."""
    return Manifest.from_json(changed(BODY, changes))


def schema_text(units: int = UNITS, features: Sequence[Mapping[str, Any]] = FEATURES, **more: Any) -> str:
    """What the institution says of its records."""
    return toml_text({"units": units, **more, "features": [dict(each) for each in features], "target": TARGET}) + "\n"


def policy_text(**changes: Any) -> str:
    """What it admits."""
    return toml_text({**POLICY, **changes}) + "\n"


def write_party(
    folder: Path,
    aggregators: Mapping[str, int] | None = None,
    lead: int = 1,
    records: str = "records.csv",
    population: str = "patients",
    budget: tuple[float, float] = (4.0, 1e-4),
    data: tuple[DataSet, ...] = (),
) -> None:
    """Its node.toml, which dials ports of loopback; where none are given, such that nobody listens on."""
    ports = aggregators or {"north": 2, "south": 3}
    epsilon, delta = budget
    write_node(
        PartyNode(
            folder=folder,
            coordinator=Address("127.0.0.1", lead),
            coordinator_name=LEAD.name,
            aggregators={name: Address("127.0.0.1", port) for name, port in ports.items()},
            data=data or (DataSet(files=(folder / records,), schema=folder / "schema.toml", population=population),),
            epsilon=epsilon,
            delta=delta,
        )
    )
