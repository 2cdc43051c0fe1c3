"""A signature is one node's word, of one kind, about one statement."""

import pytest

from parley.federation.errors import NotAuthenticatedError
from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.node.signatures import sign, signed_by, verify

NORTH, SOUTH = (NodeName("cardio", Role.aggregator, name) for name in ("north", "south"))


@pytest.fixture(scope="module")
def north() -> Identity:
    """Who has pinned south, as every node of this authority has."""
    authority = ThrowAwayAuthority("cardio")
    authority.issue_as(SOUTH)
    return authority.issue_as(NORTH)


def test_what_was_signed_is_verified_by_the_pinned_key(north: Identity) -> None:
    signature = sign(north, "end 1", b"statement")
    verify(north.pins, NORTH, "end 1", b"statement", signature)


@pytest.mark.parametrize(
    ("signer", "label", "statement"),
    [(NORTH, "end 2", b"statement"), (NORTH, "end 1", b"another"), (SOUTH, "end 1", b"statement")],
    ids=["another kind", "another statement", "another node"],
)
def test_it_means_nothing_else(north: Identity, signer: NodeName, label: str, statement: bytes) -> None:
    signature = sign(north, "end 1", b"statement")
    with pytest.raises(NotAuthenticatedError, match="not signed by the key that is pinned"):
        verify(north.pins, signer, label, statement, signature)


@pytest.mark.parametrize("signature", [b"", b"0", bytes(64), bytes(1000)], ids=len)
def test_bytes_that_are_no_signature_are_none(north: Identity, signature: bytes) -> None:
    (key,) = north.pins.require(NORTH)
    assert not signed_by(key, "end 1", b"statement", signature)


@pytest.mark.parametrize("label", ["", "end 1\nstatement"])
def test_a_label_is_one_line(north: Identity, label: str) -> None:
    """Or a label and a statement could be read as another label and another statement."""
    with pytest.raises(ValueError, match="one line"):
        sign(north, label, b"")
