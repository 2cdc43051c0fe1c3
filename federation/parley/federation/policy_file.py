"""policy.toml, read strictly: what a policy means is in `parley.federation.policy`.

Every role has its own TOML file, in which every field is required: a limit that is not written down is not "no limit".

    role = "party"                        role = "aggregator"                  role = "coordinator"
    epsilon_per_run = 1.0                 minimum_parties = 3                  epsilon_per_run = 1.0
    delta_per_run = 1e-5                  largest_parties = 100                delta_per_run = 1e-5
    epsilon_total = 4.0                   largest_dimension = 100_000          minimum_parties = 3
    epsilon_if_a_server_lies_per_run = 10.0
    epsilon_if_a_server_lies_total = "any"
    minimum_parties = 3                   largest_rounds = 5_000               largest_dimension = 100_000
    largest_parties = 100                 coordinators = ["lead"]              largest_rounds = 5_000
    largest_dimension = 100_000           [operators]                          [aggregators]
    largest_rounds = 5_000                north = "North Trust"                north = "North Trust"
    largest_manifest_bytes = 100_000      south = "South Foundation"           south = "South Foundation"
    unit_column = "patient"  # or "" = row
    models = ["logistic"]
    algorithms = ["auto"]
    coordinators = ["lead"]
    data_sets = ["cardiology"]  # of node.toml's [[data]]
    [aggregators]
    north = "North Trust"
    south = "South Foundation"

`data_sets` may be left out where node.toml has one, and so may the table [code] (`parley.federation.code`) and, of
a party, `require = ["purpose", "contact"]`: what a manifest has to say of law and people (`parley.federation.people`),
and the table [review]: who has to sign (`parley.federation.reviewers`).
"""

from functools import partial
from pathlib import Path
from typing import Any

from parley.federation.code import code_table
from parley.federation.errors import PolicyError
from parley.federation.fields import Fields
from parley.federation.files import file_bytes, toml_table
from parley.federation.manifest import LARGEST_DIMENSION, LARGEST_EPSILON, MOST_BYTES
from parley.federation.names import Role
from parley.federation.people import DEMANDS
from parley.federation.policy import AggregatorPolicy, CoordinatorPolicy, PartyPolicy, Policy
from parley.federation.reviewers import review_table

LARGEST_TOTAL = 1e6
LARGEST_COUNT = 1_000_000_000
MOST_POLICY_BYTES = 1 << 18


def read_policy(path: Path) -> Policy:
    """A policy from its file; an error, and so no admission, if it is missing or anything in it is not understood."""
    return policy_from(policy_bytes(path), path.name)


def policy_bytes(path: Path) -> bytes:
    """As the file has it."""
    return file_bytes(path, partial(PolicyError, path.name), "without a policy nothing is admitted", MOST_POLICY_BYTES)


def policy_table(data: bytes, name: str) -> dict[str, Any]:
    """As it was written, before anything is made of it."""
    return toml_table(data, partial(PolicyError, name))


def policy_from(data: bytes, name: str) -> Policy:
    """What a file of these bytes means."""
    fields = Fields(policy_table(data, name), "", PolicyError)
    readers = {Role.party: _party, Role.aggregator: _aggregator, Role.coordinator: _coordinator}
    policy = readers[fields.choice("role", tuple(Role))](fields)
    fields.finish()
    return policy


def _party(fields: Fields) -> Policy:
    return PartyPolicy(
        **_limits(fields),
        epsilon_total=fields.number("epsilon_total", 0, LARGEST_TOTAL),
        epsilon_if_a_server_lies_per_run=_number_or_any(fields, "epsilon_if_a_server_lies_per_run"),
        epsilon_if_a_server_lies_total=_number_or_any(fields, "epsilon_if_a_server_lies_total"),
        minimum_parties=_minimum(fields),
        largest_parties=fields.whole("largest_parties", 2, LARGEST_COUNT),
        **_sizes(fields),
        largest_manifest_bytes=fields.whole("largest_manifest_bytes", 1, MOST_BYTES),
        unit_column=_unit(fields),
        models=fields.texts("models"),
        algorithms=fields.texts("algorithms"),
        coordinators=fields.labels("coordinators"),
        aggregators=fields.text_by_label("aggregators"),
        data_sets=fields.labels("data_sets") if fields.has("data_sets") else frozenset(),
        code=code_table(fields),
        require=_demands(fields),
        review=review_table(fields),
    )


def _demands(fields: Fields) -> frozenset[str]:
    if not fields.has("require"):
        return frozenset()
    found = fields.texts("require")
    for each in sorted(found - set(DEMANDS)):
        raise fields.refuse("require", f"has {each[:80]!r}: use {', '.join(DEMANDS)}")
    return found


def _aggregator(fields: Fields) -> Policy:
    return AggregatorPolicy(
        minimum_parties=_minimum(fields),
        largest_parties=fields.whole("largest_parties", 2, LARGEST_COUNT),
        **_sizes(fields),
        coordinators=fields.labels("coordinators"),
        operators=fields.text_by_label("operators"),
    )


def _coordinator(fields: Fields) -> Policy:
    return CoordinatorPolicy(
        **_limits(fields),
        minimum_parties=_minimum(fields),
        **_sizes(fields),
        aggregators=fields.text_by_label("aggregators"),
        code=code_table(fields),
    )


def _limits(fields: Fields) -> dict[str, Any]:
    return {
        "epsilon_per_run": fields.number("epsilon_per_run", 0, LARGEST_EPSILON),
        "delta_per_run": fields.number("delta_per_run", 0, 0.5),
    }


def _number_or_any(fields: Fields, name: str) -> float | None:
    return None if fields.is_text(name, "any") else fields.number(name, 0, LARGEST_TOTAL)


def _minimum(fields: Fields) -> int:
    return fields.whole("minimum_parties", 2, LARGEST_COUNT)


def _sizes(fields: Fields) -> dict[str, Any]:
    return {
        "largest_dimension": fields.whole("largest_dimension", 1, LARGEST_DIMENSION),
        "largest_rounds": fields.whole("largest_rounds", 1, LARGEST_COUNT),
    }


def _unit(fields: Fields) -> str | None:
    return None if fields.empty_text("unit_column") else fields.text("unit_column")
