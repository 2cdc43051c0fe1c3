"""Nodes and the keys that they pin."""

from pathlib import Path

import pytest

from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import NodeFolder

PARTY, OTHER = (NodeName("cardio", Role.party, name) for name in ("hospital-a", "hospital-b"))
LEAD, NORTH, SOUTH = (
    NodeName("cardio", Role.coordinator, "lead"),
    NodeName("cardio", Role.aggregator, "north"),
    NodeName("cardio", Role.aggregator, "south"),
)
NODE = (
    'role = "party"\ncoordinator = "lead@127.0.0.1:7400"\n[aggregators]\nnorth = "127.0.0.1:7401"\n'
    'south = "127.0.0.1:7401"\n[data]\nfiles = ["records.csv"]\nschema = "schema.toml"\npopulation = "patients"\n'
    "[budget]\nepsilon = 4.0\ndelta = 1e-4\n"
)


@pytest.fixture
def issuer() -> ThrowAwayAuthority:
    return ThrowAwayAuthority("cardio")


def alone(path: Path, issuer: ThrowAwayAuthority, name: NodeName) -> NodeFolder:
    """A node that has pinned nobody."""
    issuer.issue_as(name).save(path / "identities" / "1")
    (path / "current").symlink_to("identities/1")
    return NodeFolder(path)
