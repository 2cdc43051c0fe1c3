"""Nodes that are enrolled."""

from pathlib import Path

import pytest
from cryptography import x509

from parley.federation.names import NodeName, Role
from parley.node import installation as nodes
from parley.node.authority import PEM, Authority
from parley.node.credentials import NodeFolder

PARTY = NodeName("cardio", Role.party, "hospital-a")
AGGREGATOR = NodeName("cardio", Role.aggregator, "north")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("cardio")


def bundle(authority: Authority, certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(PEM) + authority.certificate.public_bytes(PEM)


def installed(tmp_path: Path, authority: Authority, name: NodeName = AGGREGATOR) -> NodeFolder:
    folder = NodeFolder(tmp_path / "node")
    waiting = nodes.request(folder, name)
    certificate = authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
    nodes.install(folder, bundle(authority, certificate), authority.fingerprint)
    return folder
