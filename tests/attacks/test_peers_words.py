"""What a peer says in an answer or a refusal: bounded, on one line, and never an exception of the one who reads it."""

import asyncio
import math
from typing import Any

import grpc
import numpy as np
import pytest

from parley.coordinator.controls import LONGEST_SECONDS, Controls, Wanted
from parley.federation.errors import NotAuthenticatedError
from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.endings import sign_end, verify_ends
from parley.node.refusals import LONGEST_WORDS, METADATA, refusal_in
from parley.v1 import aggregator_pb2, common_pb2
from tests.support import documents


class Failed(grpc.RpcError, grpc.Call):
    """A call that failed, as gRPC raises it."""

    def __init__(self, detail: bytes) -> None:
        self._detail = detail

    def trailing_metadata(self) -> Any:
        return ((METADATA, self._detail),)

    def code(self) -> Any: ...
    def details(self) -> Any: ...
    def initial_metadata(self) -> Any: ...
    def is_active(self) -> Any: ...
    def time_remaining(self) -> Any: ...
    def cancel(self) -> Any: ...
    def add_callback(self, callback: Any) -> Any: ...


def test_a_refusal_of_strange_bytes_is_a_failed_call_and_no_more() -> None:
    assert refusal_in(Failed(b"\xff\xff\xff")) is None


def test_a_refusal_of_no_known_kind_has_a_name_all_the_same() -> None:
    found = refusal_in(Failed(common_pb2.RefusalDetail(refusal=77, message="x").SerializeToString()))  # type: ignore[arg-type]
    assert found is not None
    assert found.name == "unspecified"


def test_a_refusals_words_are_one_line_of_bounded_length() -> None:
    detail = common_pb2.RefusalDetail(
        refusal=common_pb2.REFUSAL_POLICY, message="\x1b[2Jno\n" + "x" * 100_000, hint="\u202e"
    )
    found = refusal_in(Failed(detail.SerializeToString()))
    assert found is not None
    assert str(found).isprintable()
    assert found.message.startswith("?[2Jno?xxx")
    assert len(found.message) == LONGEST_WORDS


class Answering(Controls):
    """Both servers' answers, as a test words them."""

    def __init__(self, seconds: float) -> None:
        self.servers = [None, None]  # type: ignore[list-item]
        self._seconds = seconds

    async def _open_one(self, place: int, server: Any, wanted: Wanted) -> tuple[aggregator_pb2.OpenResponse, bytes]:
        said: Any = dict.fromkeys(("waited_seconds", "agreed_seconds", "noised_seconds"), self._seconds)
        return aggregator_pb2.OpenResponse(contributors=["hospital-a"], **said), bytes(8 * wanted.length)


@pytest.mark.parametrize("said", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_a_servers_seconds_are_seconds_in_every_figure(said: float) -> None:
    lattice = documents.manifest().lattice(0)
    wanted = Wanted(b"", 0, b"", 3, lattice, lambda: (), lambda *_: None, 1.0)
    opening = asyncio.run(Answering(said).open(wanted))
    for figure in (opening.waited_seconds, opening.agreed_seconds, opening.noised_seconds):
        assert 0.0 <= figure <= LONGEST_SECONDS
    assert not np.any(opening.total)


def test_more_ends_than_servers_prove_nothing_and_cost_nothing() -> None:
    authority, manifest = ThrowAwayAuthority("cardio"), documents.manifest()
    names = [NodeName("cardio", Role.aggregator, name) for name in ("north", "south")]
    signers = [authority.issue_as(name) for name in names]
    ends = [sign_end(each, manifest.digest, 3) for each in signers]
    assert verify_ends(ends, manifest, signers[0].pins) == 3
    with pytest.raises(NotAuthenticatedError, match="4 words were sent"):
        verify_ends([*ends, *ends], manifest, signers[0].pins)
