"""Signed ends of a run."""

import pytest

from parley.federation.errors import NotAuthenticatedError
from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.endings import sign_end, verify_ends
from tests.support import documents


def test_more_ends_than_servers_prove_nothing_and_cost_nothing() -> None:
    authority, manifest = ThrowAwayAuthority("cardio"), documents.manifest()
    names = [NodeName("cardio", Role.aggregator, name) for name in ("north", "south")]
    signers = [authority.issue_as(name) for name in names]
    ends = [sign_end(each, manifest.digest, 3) for each in signers]
    assert verify_ends(ends, manifest, signers[0].pins) == 3
    with pytest.raises(NotAuthenticatedError, match="4 words were sent"):
        verify_ends([*ends, *ends], manifest, signers[0].pins)
