"""The model's network, and its aggregation servers: `parley.aggregator.run` with its real store, and noise of zeros.

Noise of zeros exists here only: the product refuses σ = 0.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from parley.aggregator.opening import Aggregator
from parley.aggregator.opening_store import OpeningStore
from parley.aggregator.peer import AnsweringLink, Conversation, DiallingLink, Halves, naming
from parley.aggregator.pool import Reservation
from parley.aggregator.run import Run
from parley.aggregator.signer import Signer
from parley.aggregator.spool import Room
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc.errors import PeerClosedError
from parley.mpc.tables import FORMATS
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.v1 import aggregator_pb2, common_pb2
from tests.model.virtual import NODE, Died, FrameLink, Mortal, Threads, World

DIAL_SECONDS = 0.02
"""Until server A's patience begins to count."""


@cache
def authority(federation: str) -> ThrowAwayAuthority:
    """Who vouches for the servers' keys: statements are signed and verified as ever."""
    return ThrowAwayAuthority(federation)


@cache
def identity(name: NodeName) -> Identity:
    return authority(name.federation).issue_as(name)


class CallFailedError(grpc.RpcError, grpc.Call):
    """What a synchronous stub raises."""

    def __init__(self, code: grpc.StatusCode, text: str, metadata: Any = ()) -> None:
        super().__init__(text)
        self._code, self._text, self._metadata = code, text, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def initial_metadata(self) -> Any:
        return ()

    def trailing_metadata(self) -> Any:
        return self._metadata

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float:
        return 0.0

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: Any) -> bool:
        return False


class Gone(Exception):
    """A call that got no answer."""


class Network:
    """Every call between two nodes goes through here; what is to befall the next ones is set by the rules."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[frozenset[str]] = set()
        self.fates: dict[tuple[str, str], list[str]] = {}
        """Caller, callee -> what happens to its next calls: drop, mute (done, not answered), twice, late."""
        self.replays: list[tuple[str, Callable[[], Awaitable[Any]]]] = []
        """Calls that were made: any may come once more, whenever."""

    async def call(self, source: str, target: str, make: Callable[[], Awaitable[Any]], keep: bool = True) -> Any:
        """`make` runs on behalf of the callee."""
        pair = (source, target)
        fates = self.fates.get(pair)
        fate = fates.pop(0) if fates else ""
        if frozenset(pair) in self.cut or fate == "drop":
            await asyncio.sleep(0.001)
            raise Gone
        if keep and len(self.replays) < 64:
            self.replays.append((f"{source} to {target}", make))
        if fate == "late":
            await asyncio.sleep(20.0)
        if fate == "twice":
            first = asyncio.ensure_future(make())
            first.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0.001)
        answer = await make()
        if fate == "mute" or frozenset(pair) in self.cut:
            raise Gone
        return answer


async def on_behalf(world: World, node: Mortal, work: Callable[[], Awaitable[Any]]) -> Any:
    """As a task of the node; `Gone` if it dies of it."""
    if node.dead:
        raise Gone
    context = contextvars.copy_context()
    context.run(NODE.set, node)

    async def go() -> Any:
        return await work()

    life = node.life
    task = world.loop.create_task(go(), context=context)
    try:
        return await asyncio.shield(task)
    except Died:
        raise Gone from None
    except (asyncio.CancelledError, Exception):
        if node.dead or node.life != life:
            raise Gone from None
        raise


class ZeroPool:
    """One server's end of a noise session in which every sample is zero."""

    def __init__(self, session: list[int]) -> None:
        self.tables = SimpleNamespace(format=FORMATS["standard"])
        self._session, self._epoch, self._next = session, -1, 0
        self.placing = threading.Lock()

    def _now(self) -> bytes:
        if self._epoch != self._session[0]:
            self._epoch, self._next = self._session[0], 0
        return self._epoch.to_bytes(16, "big")

    def position(self, timeout_seconds: float, rate: Fraction | int = 0) -> tuple[bytes, int]:
        return self._now(), self._next

    def reserve(self, epoch: bytes, start: int, count: int) -> Reservation:
        if epoch != self._now() or start < self._next:
            raise PeerClosedError("this noise is gone")
        self._next = start + count
        return Reservation(epoch, start, count)

    def release(self, reservation: Reservation) -> None:
        """Zeros are nobody's."""

    def collect(self, reservation: Reservation, timeout_seconds: float) -> Iterator[NDArray[np.uint64]]:
        if reservation.epoch != self._now():
            raise PeerClosedError("this noise is gone")
        yield np.zeros(reservation.count, np.uint64)


class Server(Mortal):
    """An aggregation server: `parley.aggregator.run.Run` on its store."""

    def __init__(self, world: World, manifest: Manifest, role: int, path: Path, session: list[int]) -> None:
        self.world, self.manifest, self.role, self.path, self.session = world, manifest, role, path, session
        self.name = "AB"[role]
        self.other: Server = self
        self.network: Network
        self.links: set[FrameLink] = set()
        self.released: dict[int, set[bytes]] = {}
        self.most_opened = 0
        self._threads = Threads(world)

    def start(self) -> None:
        self.dead, self.life = False, self.life + 1
        self.session[0] += 1
        token = NODE.set(self)
        self.store = OpeningStore(self.path)
        pool: Any = ZeroPool(self.session)
        name = self.manifest.identities(Role.aggregator)[self.role]
        server: Any = SimpleNamespace(
            role=self.role,
            store=self.store,
            opener=Aggregator(self.role, pool, self.store, 10.0),
            room=Room(self.path.parent, 1 << 20),
            workers=self._threads,
            dial=self._dial if self.role == 0 else None,
            admissions=SimpleNamespace(manifest=lambda digest: self.manifest),
            note=lambda event, **fields: "",
            held_against=lambda manifest: None,
            pending=list,
            signer=Signer(self.role, lambda: identity(name)),
        )
        self.run = Run(self.manifest, server)
        self.world.loop.call_soon(self.run.check_soon)
        NODE.reset(token)

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.session[0] += 1
            self.store.close()
            for link in list(self.links):
                link.close()
            self.links.clear()
            if (timer := self.run._check_timer) is not None:
                timer.cancel()
            self.world.cancel_of(self)

    def look(self) -> int:
        """Commits on disk."""
        store = OpeningStore(self.path) if self.dead else self.store
        mine = store.counts(self.manifest.run).mine
        if self.dead:
            store.close()
        return mine

    def _dial(
        self, manifest_digest: bytes, round_index: int, settling: bool, patience_seconds: float, halves: Halves = ()
    ) -> Conversation:
        """In a worker's thread."""
        other = self.other
        if self.dead:
            raise Died
        if other.dead or frozenset("AB") in self.network.cut:
            raise PeerClosedError("the other server is away")
        mine, theirs = FrameLink.pair(self.world)
        self.links.add(mine)
        other.links.add(theirs)
        first = naming(manifest_digest, round_index, settling, halves)
        channel = Conversation(DiallingLink(mine, first, patience_seconds + DIAL_SECONDS), mine.close)
        theirs.receive(self.world.now)
        context = contextvars.copy_context()
        context.run(NODE.set, other)
        self.world.loop.call_soon_threadsafe(
            lambda: (
                self.world.loop.create_task(
                    other.run.serve(AnsweringLink(theirs), round_index, settling, halves, asyncio.Event()),
                    context=context,
                )
                if not other.dead
                else theirs.close()
            )
        )
        return channel

    # ------------------------------------------------------------ calls

    async def upload(self, party: str, request: aggregator_pb2.UploadRequest) -> Any:
        return await on_behalf(self.world, self, lambda: self.run.upload(party, request))

    async def statements(self, party: str, request: aggregator_pb2.StatementsRequest) -> Any:
        async def handle() -> Any:
            return self.run.statements(party, request)

        return await on_behalf(self.world, self, handle)

    async def control(self, method: str, request: Any) -> Any:
        async def handle() -> Any:
            if method == "Propose":
                return aggregator_pb2.ProposeResponse(admitted=True)
            if method == "FetchShare":
                return aggregator_pb2.FetchShareResponse(data=self.run.share(request.round, request.offset))
            if method == "End":
                openings = await self.run.end()
                name = self.manifest.aggregators[self.role].name
                return aggregator_pb2.EndResponse(end=common_pb2.SignedEnd(aggregator=name, openings=openings))
            answer = await self.run.open(request)
            if answer.state == aggregator_pb2.OpenResponse.STATE_OPENED:
                self.released.setdefault(request.round, set()).add(answer.opening + answer.share)
            return answer

        return await on_behalf(self.world, self, handle)
