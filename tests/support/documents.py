"""Manifests and policies for tests."""

from typing import Any

from parley.attacks.documents import changed
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning

BODY: dict[str, Any] = {
    "protocol": 2,
    "run": "heart-1",
    "federation": "cardio",
    "model": {"kind": "logistic", "dimension": 3},
    "algorithm": {
        "name": "ddp-srm",
        "gradient_norm": 1.0,
        "difference_norm": 0.5,
        "gamma": 0.5,
        "batch": 30,
        "passes": 3.95,
    },
    "regulariser": {"kind": "nonconvex", "weight": 0.001},
    "schema": {
        "features": [
            {"name": "age", "low": 20.0, "high": 90.0},
            {"name": "pulse", "low": 30.0, "high": 220.0},
        ],
        "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        "intercept": True,
    },
    "privacy": {"epsilon": 2.0, "delta": 1e-5, "accountant": "pld"},
    "mechanism": {
        "clip": {"kind": "recursive-momentum", "gradient_norm": 1.0, "difference_norm": 0.5, "gamma": 0.5},
        "noise_multiplier": 1.2,
        "steps": 39,
        "relation": "replace-one",
    },
    "parties": [
        {"name": "hospital-a", "sampler": {"kind": "wor", "units": 300, "batch": 15}},
        {"name": "hospital-b", "sampler": {"kind": "wor", "units": 200, "batch": 10}},
        {"name": "hospital-c", "sampler": {"kind": "wor", "units": 100, "batch": 5}},
    ],
    "noise": {"cover": "strips", "precision": "standard", "fraction_bits": 16, "security": "semi-honest", "own": 0.5},
    "rounds": {"minimum_parties": 2, "deadline_seconds": 30.0},
    "aggregators": [
        {"name": "north", "legal_entity": "North Trust"},
        {"name": "south", "legal_entity": "South Foundation"},
    ],
    "coordinator": {"name": "lead", "legal_entity": "University Hospital"},
}

PARTY_POLICY = """
role = "party"
epsilon_per_run = 2.0
delta_per_run = 1e-5
epsilon_total = 4.0
epsilon_if_a_server_lies_per_run = "any"
epsilon_if_a_server_lies_total = "any"
minimum_parties = 2
largest_parties = 10
largest_dimension = 1000
largest_rounds = 40
largest_manifest_bytes = 20000
unit_column = ""
models = ["logistic"]
algorithms = ["ddp-srm"]
coordinators = ["lead"]
[aggregators]
north = "North Trust"
south = "South Foundation"
"""
SCHEMA = """
units = 300
features = [{ name = "age", low = 20.0, high = 90.0 }, { name = "pulse", low = 30.0, high = 220.0 }]
target = { name = "sick", kind = "binary", positive = ["1"], negative = ["0"] }
"""
"""What hospital-a says of its records."""
AGGREGATOR_POLICY = """
role = "aggregator"
minimum_parties = 2
largest_parties = 10
largest_dimension = 1000
largest_rounds = 40
coordinators = ["lead"]
[operators]
north = "North Trust"
south = "South Foundation"
"""
COORDINATOR_POLICY = """
role = "coordinator"
epsilon_per_run = 2.0
delta_per_run = 1e-5
minimum_parties = 2
largest_dimension = 1000
largest_rounds = 40
[aggregators]
north = "North Trust"
south = "South Foundation"
"""


def body(**changes: Any) -> dict[str, Any]:
    """BODY with values at dotted paths replaced, such as `body(**{"parties.0.name": "x"})`."""
    return changed(BODY, changes)


def manifest(**changes: Any) -> Manifest:
    return Manifest.from_json(body(**changes))


def meaning(**changes: Any) -> Meaning:
    """As if verified: for policies, which do not care how the figures came about."""
    return Meaning(
        manifest=manifest(**changes),
        epsilon=1.78,
        delta=1e-5,
        worst_party="hospital-a",
        epsilon_added=1e-4,
        delta_added=1e-8,
        range_margin_bits=17.0,
        statement="a sentence",
        epsilon_if_a_server_lies=4.2,
    )
