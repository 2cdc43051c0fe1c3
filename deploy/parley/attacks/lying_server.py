"""Two aggregation servers of which one may lie: the real protocol code, a thread each, over links in memory.

A liar is a subclass of the product's `Sampler` that deviates in one place (`parley.attacks.servers` has some). It
speaks for its server in every noise session of that server's pool; all else of both servers is the product's: sessions
over real transfers, pools, two-phase openings, stores on disk.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parley.aggregator.opening import Aggregator, Contributions
from parley.aggregator.opening_store import Opened, OpeningStore
from parley.aggregator.pool import NoisePool
from parley.aggregator.request import Request
from parley.aggregator.workers import Begin, Demand
from parley.mpc.channel import FRAME_OVERHEAD, Channel, Link, MemoryLink
from parley.mpc.errors import MpcError, PeerClosedError, PeerError, PeerTimeoutError
from parley.mpc.history import Sign, unsigned
from parley.mpc.ring import Lattice, share
from parley.mpc.sampler import LANES, Sampler
from parley.mpc.session import Session
from parley.mpc.steps import Bytes, Message
from parley.mpc.tables import Cover, Precision, Tables, load

Words = NDArray[np.uint64]
T = TypeVar("T")
Liars = Mapping[int, type[Sampler]]
"""By role, 0 is A: who does not follow. Everybody else does."""
PRESET: tuple[Cover, Precision] = ("strips", "standard")
WAIT_SECONDS = 120.0


def instead(honest: Sampler, liar: type[Sampler]) -> Sampler:
    """The liar in an honest server's place: same session, same transfers, same randomness."""
    made = liar.__new__(liar)
    vars(made).update(vars(honest))
    return made


class RushingChannel(Channel):
    """Its server speaks last: it reads the other's frame before it makes its own. A sampler that has put a piece of
    its next message into `late` has it made anew then, from the other's piece in the same place.
    """

    late: tuple[Bytes, Callable[[Bytes], Bytes]] | None = None

    def _exchange(self, message: Message) -> Message:
        place = next((i for i, piece in enumerate(message) if self.late and piece is self.late[0]), None)
        if place is not None and self.late is not None:
            start = FRAME_OVERHEAD + sum(piece.size for piece in message[:place])
            theirs = np.frombuffer(self._peeked(), np.uint8)[start : start + message[place].size]
            message = [*message[:place], self.late[1](theirs), *message[place + 1 :]]
        return super()._exchange(message)

    def _peeked(self) -> bytes:
        link, until = self._link, time.monotonic() + self._deadline_seconds
        assert isinstance(link, MemoryLink)
        with link._ready:
            if not link._ready.wait_for(lambda: link._inbox or not link._open, until - time.monotonic()):
                raise PeerTimeoutError("the honest server says nothing")
            if not link._inbox:
                raise PeerClosedError("the honest server has gone")
            return link._inbox[0]


def both(
    end: Callable[[int, Channel], T], seconds: float = WAIT_SECONDS, rushing: Collection[int] = ()
) -> list[T | MpcError]:
    """`end(role, channel)` of both servers over one channel: what each returns, or raises of the protocol's errors.
    Servers in `rushing` speak last.
    """
    channels = [
        (RushingChannel if role in rushing else Channel)(link, seconds) for role, link in enumerate(MemoryLink.pair())
    ]
    results: list[Any] = [None, None]

    def go(role: int) -> None:
        try:
            results[role] = end(role, channels[role])
        except MpcError as error:
            results[role] = error
        finally:
            channels[role].close("this server is done")

    threads = [threading.Thread(target=go, args=(role,), daemon=True) for role in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 10)
        if thread.is_alive():
            raise RuntimeError("a server hangs")
    return results


def sampled(
    liars: Liars, batches: int = 1, lanes: int = LANES, tables: Tables | None = None, rushing: Collection[int] = ()
) -> "Sampled":
    """A noise session of some batches, as `Session` runs it; what it made, up to the batch that ended it. A liar that
    speaks last finds its channel as `rushing`.
    """
    tables = tables or load(*PRESET)
    kept: list[list[Words]] = [[], []]
    samplers: list[Sampler | None] = [None, None]

    def end(role: int, channel: Channel) -> None:
        session = Session(channel, role, tables)
        if role in liars:
            session.sampler = instead(session.sampler, liars[role])
            vars(session.sampler)["rushing"] = channel
        samplers[role] = session.sampler
        for _ in range(batches):
            kept[role].append(session.samples(lanes))

    errors = [each if isinstance(each, MpcError) else None for each in both(end, rushing=rushing)]
    return Sampled(tables, lanes, kept, errors, samplers)


@dataclass
class Sampled:
    """What came of a noise session."""

    tables: Tables
    lanes: int
    shares: list[list[Words]]
    """By role, by batch: what each server would put into its pool."""
    errors: list[MpcError | None]
    """By role: why it ended before its time."""
    samplers: list[Sampler | None]
    """By role: where a liar may have kept what it learned."""

    def noise(self) -> NDArray[np.float64]:
        """In standard deviations, of the batches that both servers kept."""
        pairs = [a + b for a, b in zip(*self.shares, strict=False) if len(a) == len(b)]
        whole = np.concatenate(pairs) if pairs else np.zeros(0, np.uint64)
        return whole.view(np.int64) / 2.0**self.tables.format.scale_bits


class _Line:
    """Connects two pools in memory, again and again."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[MemoryLink] = queue.SimpleQueue()

    def dial(self) -> Link:
        ours, theirs = MemoryLink.pair()
        self._waiting.put(theirs)
        return ours

    def accept(self) -> Link:
        try:
            return self._waiting.get(timeout=1)
        except queue.Empty:
            raise PeerError("nobody dials") from None


def lying(role: int, tables: Tables, liar: type[Sampler]) -> Begin:
    """Sessions of a pool in which a liar speaks for its server."""

    def begin(channel: Channel, demand: Demand) -> Session:
        session = Session(channel, role, tables)
        session.sampler = instead(session.sampler, liar)
        return session

    return begin


class Servers:
    """Two servers with pools, stores on disk and everything to open sums. By `servers(folder)`."""

    def __init__(self, folder: Path, pools: list[NoisePool]) -> None:
        self.pools = pools
        self.stores = [OpeningStore(folder / f"{role}.sqlite") for role in (0, 1)]
        self.aggregators = [Aggregator(role, pools[role], self.stores[role], WAIT_SECONDS) for role in (0, 1)]
        """To be replaced by one that lies about what it keeps."""

    def open(
        self, request: Request, contributions: list[Contributions], sign: Sequence[Sign] = (unsigned, unsigned)
    ) -> list[Opened | MpcError]:
        """What each server hands out, or refuses with."""
        return both(
            lambda role, channel: self.aggregators[role].open(channel, request, contributions[role], sign=sign[role]),
            WAIT_SECONDS,
        )


@contextlib.contextmanager
def servers(folder: Path, liars: Liars, lanes: int = 2048, tables: Tables | None = None) -> Iterator[Servers]:
    """Both running."""
    line, tables = _Line(), tables or load(*PRESET)
    pools = []
    for role, connect in enumerate((line.dial, line.accept)):
        begin = lying(role, tables, liars[role]) if role in liars else None
        pools.append(NoisePool(connect, role, tables, 4 * lanes, lanes, WAIT_SECONDS, begin=begin))
    for pool in pools:
        pool.start()
    found = Servers(folder, pools)
    try:
        yield found
    finally:
        stopping = [threading.Thread(target=pool.stop) for pool in pools]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        for store in found.stores:
            store.close()


def uploads(lattice: Lattice, vectors: Mapping[str, NDArray[np.float64]]) -> list[Contributions]:
    """The same uploads on both servers."""
    length = len(next(iter(vectors.values())))
    made = [Contributions(length), Contributions(length)]
    for place, (party, vector) in enumerate(vectors.items()):
        seed = place.to_bytes(32, "little")
        made[0].add(party, party.encode(), share(lattice.encode(vector), seed))
        made[1].add(party, party.encode(), seed)
    return made


def released(lattice: Lattice, opened: list[Opened | MpcError]) -> NDArray[np.float64] | None:
    """The sum as the coordinator decodes it; None where either server refused."""
    shares = [each.share for each in opened if isinstance(each, Opened)]
    if len(shares) != 2:
        return None
    return lattice.decode(lattice.open(*(np.frombuffer(each, "<u8") for each in shares)))
