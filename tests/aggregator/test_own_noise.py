"""The servers' own noise, in openings of the real aggregators: its law, and that nothing else has a part in it.

False alarms: each of the thirteen sets of samples fails one of the checks of `statistics` with probability below
1.5e-8, each of the thirty correlations, at 6.5 deviations, below 2e-9 (of squares: 8e-11, were they normal).
"""

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.aggregator.opening import Aggregator, Contributions
from parley.aggregator.opening_store import Opened, OpeningStore, Phase
from parley.aggregator.pool import NoisePool
from parley.aggregator.request import Request
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.clear import OwnNoise
from parley.mpc.errors import MpcError, PeerError
from parley.mpc.parts import OWN, NoiseParts
from parley.mpc.ring import Lattice, share
from parley.mpc.tables import load
from tests.aggregator.test_pool import pools
from tests.support import statistics
from tests.support.until import GIVE_UP_SECONDS

TABLES = load("strips", "standard")
SCALE = TABLES.format.scale_bits
MALICIOUS = NoiseParts("malicious", 1.0)
EVERY = [NoiseParts("semi-honest", own) for own in OWN] + [MALICIOUS]


class Recorded(OwnNoise):
    """As it is, and keeps what it drew."""

    def __init__(self) -> None:
        super().__init__(TABLES)
        self.drawn: list[NDArray[np.float64]] = []

    def add(self, shares: NDArray[np.uint64], shift: int) -> None:
        before = shares.copy()
        super().add(shares, shift)
        self.drawn.append((shares - before).view(np.int64) / 2.0**SCALE)


class NoPool(NoisePool):
    """A pool that was never started: whoever asks it for noise fails."""

    def position(
        self, timeout_seconds: float, rate: Fraction | int = 0, most_lanes: int = 1 << 14
    ) -> tuple[bytes, int]:
        raise AssertionError("a run without joint noise asked for some")


def never() -> Any:
    raise AssertionError("no session was to be opened")


class Two:
    """Two servers over one channel per opening."""

    def __init__(self, folder: Path, noise: list[NoisePool]) -> None:
        self.folder = folder
        self.stores = [OpeningStore(folder / f"{role}.sqlite") for role in (0, 1)]
        self.aggregators = [Aggregator(role, noise[role], self.stores[role], GIVE_UP_SECONDS) for role in (0, 1)]
        self.own = [Recorded(), Recorded()]
        for aggregator, own in zip(self.aggregators, self.own, strict=True):
            aggregator.own = own

    def open(self, request: Request) -> list[Any]:
        results: list[Any] = [None, None]
        channels = [Channel(link, GIVE_UP_SECONDS) for link in MemoryLink.pair()]
        values = np.full(request.dimension, 3, np.int64)
        uploads = [Contributions(request.dimension), Contributions(request.dimension)]
        for party in ("a", "b"):
            uploads[0].add(party, party.encode(), share(values, party.encode() * 32))
            uploads[1].add(party, party.encode(), party.encode() * 32)

        def go(role: int) -> None:
            try:
                results[role] = self.aggregators[role].open(channels[role], request, uploads[role])
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


@pytest.fixture
def without_pools(tmp_path: Path) -> Iterator[Two]:
    two = Two(tmp_path, [NoPool(never, role, TABLES) for role in (0, 1)])
    yield two
    for store in two.stores:
        store.close()


def request(parts: NoiseParts, dimension: int, round_index: int = 0) -> Request:
    return Request(
        run="run",
        round=round_index,
        dimension=dimension,
        lattice=Lattice(2.0, 16, SCALE, parts),
        minimum_parties=2,
        most_records=10,
        clip=10.0,
    )


def released(asked: Request, results: list[Opened]) -> NDArray[np.float64]:
    """The noise alone, in units."""
    lattice = asked.lattice
    total = lattice.open(*(np.frombuffer(each.share, "<u8") for each in results))
    return lattice.decode(total - 6) / lattice.unit


@pytest.mark.parametrize("parts", EVERY, ids=lambda p: f"{p.security}-{p.own}")
def test_the_released_noise_has_the_law_that_is_stated(tmp_path: Path, parts: NoiseParts) -> None:
    """A normal of variance 1 + 2τ² units², 2 under malicious: every check of the suite."""
    dimension = 30_000
    with pools(capacity=4 * 8192, lanes=8192) as (a, b, _):
        two = Two(tmp_path, [a, b] if parts.joint else [NoPool(never, role, TABLES) for role in (0, 1)])
        asked = request(parts, dimension)
        noise = released(asked, two.open(asked))
        assert not statistics.failures(noise / parts.released**0.5)
        for own in two.own:
            if parts.shift is None:
                assert not own.drawn
            else:
                assert not statistics.failures(np.concatenate(own.drawn) / parts.own)


def test_the_parts_are_independent_of_each_other_and_from_round_to_round(tmp_path: Path) -> None:
    parts, dimension = NoiseParts("semi-honest", 0.5), 15_000
    with pools(capacity=4 * 8192, lanes=8192) as (a, b, _):
        two = Two(tmp_path, [a, b])
        columns: dict[str, NDArray[np.float64]] = {}
        for index in (0, 1):
            asked = request(parts, dimension, index)
            whole = released(asked, two.open(asked))
            mine = [np.concatenate(own.drawn) for own in two.own]
            for own in two.own:
                own.drawn.clear()
            columns |= {f"A {index}": mine[0], f"B {index}": mine[1], f"joint {index}": whole - mine[0] - mine[1]}
    names = list(columns)
    for place, first in enumerate(names):
        for second in names[:place]:
            for power in (1, 2):
                x, y = (columns[name] ** power for name in (first, second))
                assert abs(np.corrcoef(x, y)[0, 1]) < 6.5 / dimension**0.5, (first, second, power)


def test_a_sum_without_joint_noise_needs_no_pool_and_is_opened_once(without_pools: Two) -> None:
    asked = request(MALICIOUS, 200)
    first = without_pools.open(asked)
    assert [each.contributors for each in first] == [("a", "b")] * 2
    assert first[0].opening == first[1].opening
    assert without_pools.open(asked) == first
    assert [len(own.drawn) for own in without_pools.own] == [1, 1]
    later = request(MALICIOUS, 200, 1)
    assert without_pools.open(later)[0].opening != first[0].opening


class Dying(OpeningStore):
    """Dies once, before or after the share is prepared."""

    when = ""

    def prepare(self, request: Request, opened: Opened, seen: int = 0) -> None:
        if self.when == "before":
            self.when = ""
            raise PeerError("killed before it was prepared")
        super().prepare(request, opened, seen)
        if self.when == "after":
            self.when = ""
            raise PeerError("killed when it was prepared")


@pytest.mark.parametrize("when", ["before", "after"])
def test_own_noise_stays_with_a_share_that_was_prepared_and_is_drawn_anew_for_another(
    without_pools: Two, when: str
) -> None:
    """A kill of B: what both had prepared is released as it was; what only A had is noised anew on both."""
    store = Dying(without_pools.folder / "1.sqlite")
    store.when = when
    without_pools.aggregators[1] = Aggregator(1, NoPool(never, 1, TABLES), store, GIVE_UP_SECONDS)
    without_pools.aggregators[1].own = without_pools.own[1]
    asked = request(MALICIOUS, 100)
    assert all(isinstance(each, MpcError) for each in without_pools.open(asked))
    prepared = without_pools.stores[0].find("run", 0)
    assert prepared is not None
    assert prepared.phase is Phase.prepared
    results = without_pools.open(asked)
    assert (results[0].share == prepared.opened.share) == (when == "after")
    draws = 1 if when == "after" else 2
    for own in without_pools.own:
        assert len(own.drawn) == draws
        assert len({each.tobytes() for each in own.drawn}) == draws
    noise = released(asked, results)
    assert np.abs(noise - sum(own.drawn[-1] for own in without_pools.own)).max() < 2.0**-15
    store.close()


def test_servers_that_were_told_of_different_parts_refuse(without_pools: Two) -> None:
    one, other = request(MALICIOUS, 50), request(NoiseParts("semi-honest", 1.0), 50)
    assert one.digest() != other.digest()
    assert one.digest() != request(NoiseParts("semi-honest", 0.5), 50).digest()


def test_own_noise_is_on_no_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw asks the operating system again, and nothing of an earlier one is left."""
    seeds: list[bytes] = []

    def fixed(count: int) -> bytes:
        seeds.append(bytes([len(seeds) + 1]) * count)
        return seeds[-1]

    own = OwnNoise(TABLES)
    own.prepare()
    monkeypatch.setattr("parley.mpc.randomness.random_bytes", fixed)
    first, second = np.zeros(100, np.uint64), np.zeros(100, np.uint64)
    own.add(first, 0)
    own.add(second, 0)
    assert len(seeds) == 2
    assert not np.array_equal(first, second)
    seeds.clear()
    again = np.zeros(100, np.uint64)
    own.add(again, 0)
    assert np.array_equal(first, again)  # of its seed alone
