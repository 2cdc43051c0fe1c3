"""The model's parties: `Life` in a thread, on its real outbox.

Party i contributes 1000·(round + 1) in coordinate i and zero elsewhere, so that a sum says who is in it, of which
round, and how often.
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

from parley.aggregator.refusals import CallRefusedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node.refusals import status_of
from parley.party.memory import Recollection
from parley.party.outbox import Outbox
from parley.party.run import Life
from parley.v1 import aggregator_pb2
from tests.model.model_lead import Lead
from tests.model.model_servers import CallFailedError, Gone, Network, Server, identity
from tests.model.virtual import NODE, Died, Inline, Mortal, Waiter, World, call_from_thread

Integers = NDArray[np.int64]
UNIT = 1000
CALL_SECONDS = 45.0


def contribution_of(place: int, round_index: int, length: int) -> Integers:
    found = np.zeros(length, np.int64)
    found[place] = UNIT * (round_index + 1)
    return found


class _Contributor:
    """Knows its coordinate."""

    engine = None

    def __init__(self, place: int, length: int) -> None:
        self.place, self.length, self.last_round = place, length, -1

    def check(self, query: Any) -> None:
        assert query.round_index > self.last_round, "a round is computed twice by one process"

    def batch_length(self, index: int) -> int:
        return 1

    def contribution(self, query: Any) -> Integers:
        self.last_round = query.round_index
        return contribution_of(self.place, query.round_index, self.length)


class _Life(Life):
    """`Life` but for admission, charge and proofs, which have tests of their own."""

    party: "Party"

    def _admission(self) -> Any:
        last = self.gate.outbox.last(self.manifest.digest)
        made = _Contributor(self.party.place, self.manifest.model.dimension)
        made.last_round = last.round_index if last else -1
        return SimpleNamespace(contributor=made, module=None, extractors=None)

    def _require_recalled(self) -> None:
        pass

    def _require_charged(self, ready: Any, response: Any) -> None:
        pass

    def _prepared(self, ready: Any) -> Any:
        return ready.contributor  # there is nothing to read

    def _ended(self, response: Any, last: Any) -> None:
        self.gate.outbox.finish(self.manifest.digest, last)
        self.party.ended = True


class _Helper:
    """The uploader's second thread, without the thread."""

    def submit(self, function: Any, *arguments: Any) -> Any:
        return Inline().submit(function, *arguments)

    def shutdown(self, wait: bool) -> None:
        pass


def _nothing_to_see() -> Any:
    """Servers of this model follow the protocol, and their noise is zero."""
    return SimpleNamespace(look=lambda *args: None, hand_over=lambda *args: None)


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
        context = contextvars.copy_context()
        context.run(NODE.set, self)
        self.world.soon(threading.Thread(target=context.run, args=(self._main,), daemon=True).start)

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.outbox.close()
            for waiter in list(self._waiters):
                waiter.wake(error=Died())
            self.world.cancel_of(self)

    def _main(self) -> None:
        try:
            life = _Life(self.manifest, self._gate(), self._wire(), self._stop(), Recollection(), _nothing_to_see())
            life.party, life.uploader._helper = self, _Helper()  # type: ignore[assignment]
            life.live()
        except Died:
            pass
        except BaseException as error:
            if not self.dead:
                self.failure = error
        finally:
            self.world.waits()

    def _gate(self) -> Any:
        def record(run: str, round_index: int, digest: str, lasting: bool) -> None:
            assert self.recorded.setdefault(round_index, digest) == digest, "a round's answer was charged twice"

        return SimpleNamespace(
            node=self.node,
            settings=SimpleNamespace(
                coordinator=self.manifest.coordinator.name,
                speed=lambda digest: Path("nowhere", "at all", "speed"),
                newest=lambda digest: Path("nowhere", "at all", "newest"),
            ),
            outbox=self.outbox,
            ledger=SimpleNamespace(record=record),
            trail=SimpleNamespace(append=lambda *args, **fields: None),
            record=SimpleNamespace(withdraw=lambda digest: None, version=lambda: (0, 0)),
            evidence=SimpleNamespace(stamp=lambda: 0, all=list),
            require_admitted=lambda manifest: None,
            charged=lambda manifest: True,
            open_module=lambda manifest, ready: None,
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
            ask=lambda peer, method, request, seconds: getattr(stubs[peer], method)(request, timeout=seconds),
            mention="",
            mentioned={},
            refresh=lambda: None,
            heard=lambda peer: None,
            stopping=stopping,
            described=lambda error, peer: error,
            identity=identity(self.manifest.identities(Role.aggregator)[0]),
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
            raise CallFailedError(*status_of(error)) from None


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

    def Statements(self, request: aggregator_pb2.StatementsRequest, timeout: float) -> Any:
        party, server = self._party, self._server
        return party.call(server.name, lambda: server.statements(party.name, request), timeout)
