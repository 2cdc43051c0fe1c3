"""What an account says, taken apart: which runs have to be charged, and what a restored server does not remember."""

from itertools import product

import pytest

from parley.federation.names import NodeName, Role
from parley.node.accounts import CLOCKS_SECONDS, Heard, gaps, unpaid
from parley.v1 import aggregator_pb2, common_pb2

SERVERS = [NodeName("cardio", Role.aggregator, name) for name in ("north", "south")]
DIGEST = bytes(32)
SAYS = {
    "nothing of it": None,
    "over, without this node": aggregator_pb2.AccountedRun(run="a", openings=3, end=common_pb2.SignedEnd(openings=3)),
    "over, with it": aggregator_pb2.AccountedRun(run="a", rounds=1, end=common_pb2.SignedEnd()),
    "under way, without it": aggregator_pb2.AccountedRun(run="a"),
    "under way, with it": aggregator_pb2.AccountedRun(run="a", rounds=2),
}
FREE = ("nothing of it", "over, without this node")


@pytest.mark.parametrize(("north", "south"), list(product(SAYS, SAYS)))
def test_one_server_is_enough_to_charge_and_none_to_let_off(north: str, south: str) -> None:
    heard = [
        Heard(server, {DIGEST: said} if (said := SAYS[word]) is not None else {})
        for server, word in zip(SERVERS, (north, south), strict=True)
    ]
    assert unpaid(DIGEST, heard) == (north not in FREE or south not in FREE)


def test_a_time_without_memory_matters_to_whoever_has_an_older_backup() -> None:
    restored = [aggregator_pb2.Restoration(restored=bytes(16), made=10_000, at=20_000)]
    assert gaps(restored, None) == [(10_000, 20_000)]
    assert gaps(restored, 15_000) == [(10_000, 20_000)]
    assert gaps(restored, 20_000 + CLOCKS_SECONDS - 1) == [(10_000, 20_000)]
    assert gaps(restored, 20_000 + CLOCKS_SECONDS) == []
