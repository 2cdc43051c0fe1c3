"""What a peer says in an answer or a refusal: bounded, on one line, and never an exception of the one who reads it."""

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from parley.coordinator.controls import LONGEST_SECONDS, Controls, Wanted
from parley.v1 import aggregator_pb2
from tests.support import documents


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
    wanted = Wanted(
        digest=b"",
        round=0,
        query=b"",
        length=3,
        lattice=lattice,
        expected=lambda: (),
        missing=lambda *_: None,
        patience_seconds=1.0,
    )
    opening = asyncio.run(Answering(said).open(wanted))
    for figure in (opening.waited_seconds, opening.agreed_seconds, opening.noised_seconds):
        assert 0.0 <= figure <= LONGEST_SECONDS
    assert not np.any(opening.total)
