"""Who may call what."""

import pytest

from parley.federation.errors import (
    NotAuthorisedError,
)
from parley.federation.names import NodeName, Role
from tests.support.served import ALLOWED, AUTHORITY, METHODS, Served, call


@pytest.mark.parametrize("method", METHODS)
def test_an_allowed_peer_gets_in_and_is_known_by_its_certificate(served: Served, method: str) -> None:
    assert call(served.port, AUTHORITY.issue_as(ALLOWED), method) == ALLOWED.uri


@pytest.mark.parametrize("method", [*METHODS, "Closed"])
@pytest.mark.parametrize(
    "other",
    [
        NodeName("cardio", Role.party, "hospital-b"),
        NodeName("cardio", Role.aggregator, "hospital-a"),
        NodeName("cardio", Role.coordinator, "hospital-a"),
    ],
    ids=lambda name: name.uri,
)
def test_others_that_are_pinned_are_not_authorised(served: Served, method: str, other: NodeName) -> None:
    with pytest.raises(NotAuthorisedError, match=method):
        call(served.port, AUTHORITY.issue_as(other), method)


def test_a_method_that_lists_nobody_is_closed(served: Served) -> None:
    with pytest.raises(NotAuthorisedError, match="Closed"):
        call(served.port, AUTHORITY.issue_as(ALLOWED), "Closed")
