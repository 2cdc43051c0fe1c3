"""The model's nodes: the product's own state machines, with their real files, on the virtual clock and a faulty network.

Party i contributes 1000·(round + 1) in coordinate i and zero elsewhere, and the noise is zero, so that a released sum
says who is in it, of which round, and how often. Noise of zeros exists here only: the product refuses σ = 0.
"""

import asyncio
import contextvars
import hashlib
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.refusals import CODES, METADATA
from parley.v1 import aggregator_pb2, common_pb2

from coordinator.algorithm import Ask
from coordinator.service.controls import Control, Controls, Opening, Wanted
from coordinator.service.driver import Tools as DriverTools
from coordinator.service.parties import PartyServicer
from coordinator.service.questions import Prepared
from coordinator.service.runs import Runs
from coordinator.service.store import RunStore
from deploy.aggregator_admission import terms_of
from mpc.aggregate import Aggregator
from mpc.channel import Channel
from mpc.errors import PeerClosedError
from mpc.openings import OpeningStore
from mpc.pool import Reservation
from mpc.service.peer import FRAME_SECONDS, NAMING, AnsweringLink, DiallingLink
from mpc.service.run import Run
from mpc.service.state import Tools
from mpc.service.terms import CallRefusedError
from mpc.service.uploads import Memory
from mpc.tables import FORMATS
from party.client.outbox import Outbox
from party.client.run import Life
from tests.end_to_end.virtual import NODE, Died, FrameLink, Inline, Mortal, Threads, Waiter, World, call_from_thread

Integers = NDArray[np.int64]
UNIT = 1000
CALL_SECONDS = 45.0


def contribution_of(place: int, round_index: int, length: int) -> Integers:
    found = np.zeros(length, np.int64)
    found[place] = UNIT * (round_index + 1)
    return found


class CallFailedError(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """What a synchronous stub raises."""

    def __init__(self, code: grpc.StatusCode, text: str, metadata: Any = ()) -> None:
        super().__init__(text)
        self._code, self._text, self._metadata = code, text, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> Any:
        return self._metadata


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

    def _now(self) -> bytes:
        if self._epoch != self._session[0]:
            self._epoch, self._next = self._session[0], 0
        return self._epoch.to_bytes(16, "big")

    def position(self, timeout_seconds: float) -> tuple[bytes, int]:
        return self._now(), self._next

    def reserve(self, epoch: bytes, start: int, count: int) -> Reservation:
        if epoch != self._now() or start < self._next:
            raise PeerClosedError("this noise is gone")
        self._next = start + count
        return Reservation(epoch, start, count)

    def collect(self, reservation: Reservation, timeout_seconds: float) -> Iterator[NDArray[np.uint64]]:
        if reservation.epoch != self._now():
            raise PeerClosedError("this noise is gone")
        yield np.zeros(reservation.count, np.uint64)


class Server(Mortal):
    """An aggregation server: `mpc.service.run.Run` on its store."""

    def __init__(self, world: World, manifest: Manifest, role: int, path: Path, session: list[int]) -> None:
        self.world, self.manifest, self.role, self.path, self.session = world, manifest, role, path, session
        self.name = "AB"[role]
        self.other: Server = self
        self.network: Network
        self.links: set[FrameLink] = set()
        self.released: dict[int, set[bytes]] = {}
        self.most_opened = 0
        self.terms = terms_of(manifest, role)
        self._threads = Threads(world)

    def start(self) -> None:
        self.dead, self.life = False, self.life + 1
        self.session[0] += 1
        token = NODE.set(self)
        self.store = OpeningStore(self.path)
        pool: Any = ZeroPool(self.session)
        tools = Tools(
            self.store, Aggregator(self.role, pool, self.store, 10.0), Memory(1 << 20), self._threads,
            self._dial if self.role == 0 else None, lambda event, **fields: None,
        )  # fmt: skip
        self.run = Run(self.terms, tools)
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

    def _dial(self, digest: bytes, index: int, settling: bool, patience: float) -> Channel:
        """In a worker's thread."""
        other = self.other
        if self.dead:
            raise Died
        if other.dead or frozenset("AB") in self.network.cut:
            raise PeerClosedError("the other server is away")
        mine, theirs = FrameLink.pair(self.world)
        self.links.add(mine)
        other.links.add(theirs)
        channel = Channel(DiallingLink(mine, NAMING.pack(digest, index, settling), patience), FRAME_SECONDS)
        theirs.receive(self.world.now)
        context = contextvars.copy_context()
        context.run(NODE.set, other)
        self.world.loop.call_soon_threadsafe(
            lambda: (
                self.world.loop.create_task(
                    other.run.serve(AnsweringLink(theirs), index, settling, asyncio.Event()), context=context
                )
                if not other.dead
                else theirs.close()
            )
        )
        return channel

    # ------------------------------------------------------------ calls

    async def upload(self, party: str, request: aggregator_pb2.UploadRequest) -> Any:
        return await on_behalf(self.world, self, lambda: self.run.upload(party, request))

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


def refused(error: Any) -> tuple[grpc.StatusCode, str, Any]:
    """As `deploy` and `parley.federation.refusals` put a refusal on the wire."""
    detail = common_pb2.RefusalDetail(refusal=error.refusal, message=error.message, hint=error.hint)
    code = CODES.get(error.refusal, grpc.StatusCode.UNKNOWN)
    return code, str(error), ((METADATA, detail.SerializeToString()),)


# ---------------------------------------------------------------- the coordinator


class Additive:
    """An algorithm whose model is the sum of all estimates."""

    def __init__(self, length: int) -> None:
        self.theta = np.zeros(length)

    def begin(self, *_: Any) -> None:
        pass

    def ask(self, index: int) -> Ask:
        return Ask((self.theta.copy(),))

    def tell(self, index: int, estimate: NDArray[np.float64]) -> None:
        self.theta = self.theta + estimate

    def result(self) -> NDArray[np.float64]:
        return self.theta

    def checkpoint(self) -> dict[str, NDArray[np.float64]]:
        return {"theta": self.theta}

    def restore(self, plan: Any, state: dict[str, NDArray[np.float64]]) -> None:
        self.theta = state["theta"]


class Notes:
    """The coordinator's books and what it was given: outlives it, as a disk does."""

    def __init__(self) -> None:
        self.recorded: dict[int, set[str]] = {}
        self.openings: dict[int, list[Opening]] = {}
        self.closed = False

    async def admit(self, manifest: Manifest) -> dict[str, Any]:
        return {"epsilon": 1.0}

    def record(self, manifest: Manifest, round_index: int, digest: str) -> None:
        self.recorded.setdefault(round_index, set()).add(digest)

    async def close(self, manifest: Manifest, ends: list[Any]) -> None:
        assert len({end.openings for end in ends}) == 1, "the servers count differently"
        self.closed = True


class _Asked(Control):
    """`Control` with its retries, over the model's network."""

    def __init__(self, lead: "Lead", server: Server, peer: NodeName) -> None:
        self.lead, self.server, self.peer, self._address, self._channel = lead, server, peer, "model", None
        self._identity: Any = None

    async def close(self) -> None:
        pass

    async def _stub(self) -> Any:
        return self

    def __getattr__(self, method: str) -> Any:
        if method not in ("Propose", "Open", "FetchShare", "End"):
            raise AttributeError(method)

        async def call(request: Any, timeout: float) -> Any:
            make = lambda: self.server.control(method, request)  # noqa: E731
            try:
                async with asyncio.timeout(timeout):
                    return await self.lead.network.call("lead", self.server.name, make)
            except (Gone, TimeoutError):
                code, text, metadata = grpc.StatusCode.UNAVAILABLE, "gone", ()
            except CallRefusedError as error:
                code, text, metadata = refused(error)
            empty = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(code, empty, grpc.aio.Metadata(*metadata), text)

        return call


class _Watched(Controls):
    """`Controls`, noting what was opened."""

    def __init__(self, lead: "Lead") -> None:
        peers = lead.manifest.identities(Role.aggregator)
        self.servers = [_Asked(lead, server, peer) for server, peer in zip(lead.servers, peers, strict=True)]
        self._notes = lead.notes

    async def open(self, wanted: Wanted) -> Opening:
        opening = await super().open(wanted)
        self._notes.openings.setdefault(wanted.round, []).append(opening)
        return opening


class _Context:
    """Of a party's call: who it is."""

    def __init__(self, name: NodeName) -> None:
        self.name = name

    async def abort(self, code: grpc.StatusCode, text: str, trailing_metadata: Any = ()) -> None:
        raise CallFailedError(code, text, trailing_metadata)


class Lead(Mortal):
    """The coordinator: `Runs`, `Driver` and `PartyServicer` on its store."""

    name = "lead"

    def __init__(self, world: World, manifest: Manifest, path: Path, servers: Sequence[Server]) -> None:
        self.world, self.manifest, self.path, self.servers = world, manifest, path, servers
        self.network: Network
        self.notes = Notes()

    def start(self) -> None:
        self.dead, self.life = False, self.life + 1
        self.store = RunStore(self.path)
        length = self.manifest.model.dimension
        tools = DriverTools(
            store=self.store,
            books=self.notes,
            worker=Inline(),
            prepare=lambda manifest: Prepared(
                Additive(length),
                None,
                np.zeros(length),
                lambda ask: length,
                lambda theta: {},  # type: ignore[arg-type]
            ),
            controls=lambda manifest: _Watched(self),
            opener=lambda controls: controls,
            note=lambda event, **fields: None,
        )
        self.runs = Runs(tools, 600.0)
        self.servicer = PartyServicer(self.runs)
        context = contextvars.copy_context()
        context.run(NODE.set, self)
        self.world.loop.call_soon(self.runs.take_up, context=context)

    def submit(self) -> None:
        self.world.loop.run_until_complete(
            on_behalf(self.world, self, lambda: self.runs.submit(self.manifest.canonical))
        )

    def resume(self) -> None:
        self.world.loop.run_until_complete(on_behalf(self.world, self, lambda: self.runs.resume(self.manifest.run)))

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.store.close()
            self.world.cancel_of(self)

    async def asked(self, method: str, request: Any, party: NodeName) -> Any:
        return await on_behalf(self.world, self, lambda: getattr(self.servicer, method)(request, _Context(party)))


# ---------------------------------------------------------------- parties


class _Contributor:
    """Knows its coordinate."""

    def __init__(self, place: int, length: int) -> None:
        self.place, self.length, self.last_round = place, length, -1

    def check(self, query: Any) -> None:
        assert query.round_index > self.last_round, "a round is computed twice by one process"

    def contribution(self, query: Any) -> Integers:
        self.last_round = query.round_index
        return contribution_of(self.place, query.round_index, self.length)


class _Life(Life):
    """`Life` but for admission and proofs, which have tests of their own."""

    party: "Party"

    def _admission(self) -> Any:
        last = self.gate.outbox.last(self.manifest.digest)
        made = _Contributor(self.party.place, self.manifest.model.dimension)
        made.last_round = last.round_index if last else -1
        return made

    def _ended(self, response: Any, last: Any) -> None:
        self.gate.outbox.finish(self.manifest.digest, last)
        self.party.ended = True


class _Helper:
    """The uploader's second thread, without the thread."""

    def submit(self, function: Any, *arguments: Any) -> Any:
        return Inline().submit(function, *arguments)

    def shutdown(self, wait: bool) -> None:
        pass


class Party(Mortal):
    """A party: `Life` in a thread, on its outbox."""

    def __init__(self, world: World, manifest: Manifest, place: int, path: Path) -> None:
        self.world, self.manifest, self.place, self.path = world, manifest, place, path
        self.node = manifest.identities(Role.party)[place]
        self.name = self.node.name
        self.network: Network
        self.lead: Lead
        self.servers: Sequence[Server]
        self.ended = False
        self.failure: BaseException | None = None
        self.recorded: dict[int, str] = {}
        self.sent: dict[tuple[int, int], set[bytes]] = {}
        """(round, server) -> what ever left."""
        self._waiters: set[Waiter] = set()

    def start(self) -> None:
        if self.ended:
            return
        self.dead, self.life = False, self.life + 1
        self.outbox = Outbox(self.path)
        self.world.running(1)
        context = contextvars.copy_context()
        context.run(NODE.set, self)
        threading.Thread(target=context.run, args=(self._main,), daemon=True).start()

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.outbox.close()
            for waiter in list(self._waiters):
                waiter.wake(error=Died())
            self.world.cancel_of(self)

    def _main(self) -> None:
        try:
            life = _Life(self.manifest, self._gate(), self._wire(), self._stop())  # type: ignore[arg-type]
            life.party, life.uploader._helper = self, _Helper()  # type: ignore[assignment]
            life.live()
        except Died:
            pass
        except BaseException as error:
            if not self.dead:
                self.failure = error
        finally:
            self.world.running(-1)

    def _gate(self) -> Any:
        def record(run: str, round_index: int, digest: str) -> None:
            assert self.recorded.setdefault(round_index, digest) == digest, "a round's answer was charged twice"

        return SimpleNamespace(
            node=self.node,
            settings=SimpleNamespace(coordinator=self.manifest.coordinator.name),
            outbox=self.outbox,
            ledger=SimpleNamespace(record=record),
            trail=SimpleNamespace(append=lambda *args, **fields: None),
            record=SimpleNamespace(withdraw=lambda digest: None),
            note=lambda manifest, state, reason: None,
        )

    def _stop(self) -> Any:
        def wait(seconds: float) -> bool:
            call_from_thread(self.world, lambda: asyncio.sleep(seconds), self, self._waiters)
            return False

        return SimpleNamespace(wait=wait, is_set=lambda: False)

    def _wire(self) -> Any:
        @contextmanager
        def stopping(stop: Any) -> Iterator[None]:
            yield

        coordinator = NodeName(self.manifest.federation, Role.coordinator, self.manifest.coordinator.name)
        stubs: dict[NodeName, Any] = {coordinator: _ToLead(self)}
        for server, name in zip(self.servers, self.manifest.identities(Role.aggregator), strict=True):
            stubs[name] = _ToServer(self, server)
        return SimpleNamespace(
            stubs=stubs,
            refresh=lambda: None,
            stopping=stopping,
            described=lambda error, peer: error,
            identity=SimpleNamespace(authority=b""),
        )

    def call(self, target: str, make: Callable[[], Awaitable[Any]], timeout: float) -> Any:
        async def go() -> Any:
            async with asyncio.timeout(min(timeout, CALL_SECONDS)):
                return await self.network.call(self.name, target, make)

        try:
            return call_from_thread(self.world, go, self, self._waiters)
        except Gone:
            raise CallFailedError(grpc.StatusCode.UNAVAILABLE, "gone") from None
        except TimeoutError:
            raise CallFailedError(grpc.StatusCode.DEADLINE_EXCEEDED, "late") from None
        except CallRefusedError as error:
            raise CallFailedError(*refused(error)) from None


class _ToLead:
    def __init__(self, party: Party) -> None:
        self._party = party

    def __getattr__(self, method: str) -> Any:
        party = self._party

        def call(request: Any, timeout: float) -> Any:
            return party.call("lead", lambda: party.lead.asked(method, request, party.node), timeout)

        return call


class _ToServer:
    def __init__(self, party: Party, server: Server) -> None:
        self._party, self._server = party, server

    def Upload(self, request: aggregator_pb2.UploadRequest, timeout: float) -> Any:
        party, server = self._party, self._server
        left = hashlib.sha256(request.data + request.commitment_a + request.commitment_b).digest()
        party.sent.setdefault((request.round, server.role), set()).add(left)
        return party.call(server.name, lambda: server.upload(party.name, request), timeout)
