"""What operators do with pins, by the commands they type; and what the file refuses."""

import datetime as dt
from pathlib import Path

import pytest

from parley.federation.errors import (
    CertificateError,
    PinError,
)
from parley.node import installation as nodes
from parley.node import trust
from parley.node.authority import PEM, ThrowAwayAuthority, Validity
from parley.node.node_file import read_node
from parley.node.succession import Succession
from tests.support.pinned import LEAD, NODE, NORTH, PARTY, SOUTH, alone


def test_another_key_needs_a_rotation_or_the_word_that_the_old_one_is_lost(
    tmp_path: Path, issuer: ThrowAwayAuthority
) -> None:
    folder = alone(tmp_path / "node", issuer, PARTY)
    first, second = issuer.issue_as(SOUTH).pin, issuer.twin(SOUTH).pin
    trust.add(folder, SOUTH, first)
    trust.add(folder, SOUTH, first)
    with pytest.raises(PinError, match="--replace"):
        trust.add(folder, SOUTH, second)
    trust.add(folder, SOUTH, second, replacing=True)
    assert folder.load().pins.of(SOUTH) == (second,)
    with pytest.raises(PinError, match="gave this key up"):
        trust.add(folder, SOUTH, first, replacing=True)


def test_an_existing_node_starts_only_once_its_peers_are_pinned(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    """Today's folders have keys and certificates; what they lack is said, with the commands."""
    home = tmp_path / "hospital-a"
    folder = alone(home / "identity", issuer, PARTY)
    (home / "node.toml").write_text(NODE)
    with pytest.raises(PinError) as refused:
        trust.require(read_node(home))
    for peer in (LEAD, NORTH, SOUTH):
        assert f"parley pin add {peer} PIN --node {home}" in str(refused.value)
        trust.add(folder, peer, issuer.issue_as(peer).pin)
    trust.require(read_node(home))


def test_a_renewal_keeps_the_pin_and_a_rotation_does_not(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder = issuer.install(tmp_path / "node", SOUTH)
    before = folder.load().pin

    def installed(waiting: nodes.Pending) -> bytes:
        certificate = issuer.authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
        bundle = certificate.public_bytes(PEM) + issuer.authority.certificate.public_bytes(PEM)
        return nodes.install(folder, bundle, None).pin

    assert installed(nodes.renew(folder)) == before
    waiting = nodes.rotate(folder)
    rotation = Succession.parse(waiting.rotation.read_bytes())
    rotation.verify()
    assert (rotation.node, rotation.old, rotation.new) == (SOUTH, before, waiting.pin)
    assert installed(waiting) == waiting.pin != before


def test_an_expired_enrolment_stops_a_node_whatever_its_pin(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    folder = issuer.install(tmp_path / "node", SOUTH, Validity(now - 2 * day, now - day))
    with pytest.raises(CertificateError, match="expired"):
        folder.load()
