"""Two servers that open sums."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parley.aggregator.opening import Aggregator, Contributions
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.pool import NoisePool
from parley.aggregator.request import Request
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.errors import MpcError
from parley.mpc.ring import Lattice, share
from tests.support.until import GIVE_UP_SECONDS

DIMENSION = 300
LATTICE = Lattice(2.0, 16)


class Federation:
    """Two aggregators with durable stores."""

    def __init__(self, folder: Path, noise: list[NoisePool]) -> None:
        self.folder, self.noise = folder, noise
        self.stores = [OpeningStore(folder / f"{role}.sqlite") for role in (0, 1)]

    def settle(self, round_number: int = 0) -> list[Any]:
        """As after a restart of either."""
        return self._both(lambda aggregator, channel, role: aggregator.settle(channel, "run", round_number))

    def restart(self, role: int) -> None:
        self.stores[role].close()
        self.stores[role] = OpeningStore(self.folder / f"{role}.sqlite")

    def open(self, requests: list[Request], contributions: list[Contributions]) -> list[Any]:
        """What each server returns or raises."""
        return self._both(
            lambda aggregator, channel, role: aggregator.open(channel, requests[role], contributions[role])
        )

    def _both(self, act: Callable[[Aggregator, Channel, int], Any]) -> list[Any]:
        results: list[Any] = [None, None]
        channels = [Channel(link, GIVE_UP_SECONDS) for link in MemoryLink.pair()]

        def go(role: int) -> None:
            try:
                aggregator = Aggregator(role, self.noise[role], self.stores[role], timeout_seconds=GIVE_UP_SECONDS)
                results[role] = act(aggregator, channels[role], role)
            except MpcError as error:
                results[role] = error
                channels[role].close("test")

        threads = [threading.Thread(target=go, args=(role,)) for role in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * GIVE_UP_SECONDS)
            assert not thread.is_alive()
        return results


def request(round_number: int = 0, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "dimension": DIMENSION,
        "lattice": LATTICE,
        "minimum_parties": 2,
        "most_records": 100,
        "clip": 1000.0,
    }
    return Request(run="run", round=round_number, **{**fields, **changes})


def contributions(parties: dict[str, float], both: bool = True) -> list[Contributions]:
    """The same uploads on both servers."""
    made = [Contributions(DIMENSION), Contributions(DIMENSION)]
    for i, (party, value) in enumerate(parties.items()):
        values, seed = LATTICE.encode(np.full(DIMENSION, value)), bytes([i + 1]) * 32
        made[0].add(party, party.encode(), share(values, seed))
        made[1].add(party, party.encode(), seed)
    return made
