"""docs/attacks.md says of every field that a stranger fills in what it can do: no field is missing, none is gone."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from parley.demo.recipe import STUDY
from parley.federation.manifest import Manifest
from parley.learning.columns import Category, Date, Number, Target, Uniform
from parley.learning.schema import Schema
from parley.v1 import aggregator_pb2, common_pb2, coordinator_pb2, noise_pb2, operator_pb2
from tests.support import documents

PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"
FREE = ("model.", "algorithm.")
"""Tables of a manifest whose further fields are parameters of what their first field names: one row with a star."""
BETWEEN_SERVERS = (
    "ConverseRequest", "ConverseResponse", "OpeningServiceConverseRequest", "OpeningServiceConverseResponse",
    "RelayedHalf", "RelayedHalves",
)  # fmt: skip
"""Messages whose fields are described where the protocol between the servers is."""


def described() -> set[str]:
    """Every field that the tables name, in their first column."""
    tables = PAGE.read_text().partition("## Every field that a stranger fills in")[2].partition("\n## ")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert all(row.count(" | ") == 2 for row in rows), "a row has three columns"
    assert len(names) == len(set(names)), "a field is described once"
    return set(names)


def paths(value: Any, where: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, f"{where}.{name}" if where else name)
    elif isinstance(value, list):
        for each in value:
            yield from paths(each, f"{where}[]")
    else:
        yield where


def manifests() -> Iterator[Manifest]:
    """One of each shape that a manifest's tables have."""
    yield STUDY.manifest()
    yield documents.manifest(**{"parties.0.data_set": "cardiology"})
    yield documents.manifest(**{"privacy.epsilon_if_a_server_lies": 9.0, "noise.security": "covert"})
    legal = dict.fromkeys(("purpose", "legal_basis", "ethics_number", "retention"), "x") | {"expires": "2999-12-31"}
    people = {"parties.0.legal_entity": "A", "parties.0.contact": "a@a", "aggregators.0.contact": "n@n"}
    yield documents.manifest(legal=legal, **people, **{"coordinator.contact": "l@l"})
    start = {"digest": "9c" * 32, "private": True}
    yield documents.manifest(start=start, **{"rounds.stop_early": {"patience": 5, "least": 0.1}})
    sizes = {
        "poisson": ({"expected": 15, "cap": 60}, {"expected": 30, "cap": 90}),
        "wor": ({"batch": 15}, {"batch": 30}),
    }
    for kind, (later, first) in sizes.items():
        samplers = {
            "sampler": {"kind": kind, "units": 300, **later},
            "initial_sampler": {"kind": kind, "units": 300, **first},
        }
        yield documents.manifest(parties=[{"name": name, **samplers} for name in ("hospital-a", "hospital-b")])
    unit = {**documents.BODY["schema"], "unit": "patient"}
    clip = {"kind": "gradient", "norm": 1.0}
    yield documents.manifest(**{"schema": unit, "mechanism.unit_column": "patient", "mechanism.clip": clip})


def fields_of_manifests() -> set[str]:
    found = {path for manifest in manifests() for path in paths(manifest.as_json()) if not path.startswith("schema.")}
    found = {next((f"{free}*" for free in FREE if free in path and not _fixed(path)), path) for path in found}
    return found | set(fields_of_schemas())


def _fixed(path: str) -> bool:
    return path in ("model.kind", "model.dimension", "algorithm.name") or not path.startswith(FREE)


def fields_of_schemas() -> Iterator[str]:
    for where, kinds in {
        "schema.": (Schema,),
        "schema.features.": (Uniform,),
        "schema.features[].": (Number, Date, Category),
        "schema.target.": (Target,),
    }.items():
        for kind in kinds:
            yield from (f"{where}{each.name}" for each in fields(kind) if not each.metadata.get("unwritten"))
    yield from ("schema.features[].kind", "schema.features[].names")


def fields_of_messages() -> Iterator[str]:
    for module in (aggregator_pb2, common_pb2, coordinator_pb2, noise_pb2, operator_pb2):
        for name, message in module.DESCRIPTOR.message_types_by_name.items():
            if name not in BETWEEN_SERVERS:
                yield from (f"{name}.{field.name}" for field in message.fields)
                if not message.fields:
                    yield name


def test_every_field_of_a_manifest_is_described_and_none_that_is_gone() -> None:
    known = {name for name in described() if not name[0].isupper()}
    assert known - {"model.*"} == fields_of_manifests() - {"model.*"}


def test_every_field_of_a_message_is_described_and_none_that_is_gone() -> None:
    known = {name for name in described() if name[0].isupper() and not name.startswith(BETWEEN_SERVERS)}
    assert known == set(fields_of_messages())


def test_a_field_that_is_not_described_is_noticed() -> None:
    """The comparison itself: one that finds nothing would pass with any table."""
    assert {"parties[].sampler.units", "run", "noise.fraction_bits"} <= fields_of_manifests()
    assert {"Round.scale", "LocalFit.steps", "UploadRequest.size", "StatusRequest"} <= set(fields_of_messages())
    assert {"Round.scale", "run"} <= described()
