"""The model's coordinator: `Runs`, `Driver` and `PartyServicer` on their real store, with an additive algorithm."""

import asyncio
import contextvars
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from parley.aggregator.refusals import CallRefusedError
from parley.algorithms.algorithm import Ask
from parley.coordinator.controls import Control, Controls, Opening, Wanted
from parley.coordinator.driver import Tools as DriverTools
from parley.coordinator.parties import PartyServicer
from parley.coordinator.questions import Prepared
from parley.coordinator.runs import Runs
from parley.coordinator.store import RunStore
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node.refusals import Status, status_of
from tests.model.model_servers import CallFailedError, Gone, Network, Server, on_behalf
from tests.model.virtual import NODE, Inline, Mortal, World


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
        self.mention, self.heard = "", None
        self._lists, self._told = SimpleNamespace(newer_than=lambda number: None), 0  # type: ignore[assignment]

    async def close(self) -> None:
        pass

    async def _ask(self, method: str, request: Any, seconds: float) -> Any:
        return await getattr(self, method)(request, seconds)

    def __getattr__(self, method: str) -> Any:
        if method not in ("Propose", "Open", "FetchShare", "End"):
            raise AttributeError(method)

        async def call(request: Any, timeout: float) -> Any:
            make = lambda: self.server.control(method, request)  # noqa: E731
            try:
                async with asyncio.timeout(timeout):
                    return await self.lead.network.call("lead", self.server.name, make)
            except (Gone, TimeoutError):
                ending: Status = (grpc.StatusCode.UNAVAILABLE, "gone", ())
            except CallRefusedError as error:
                ending = status_of(error)
            code, text, metadata = ending
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
        self._told: Any = ()

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._told = metadata

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        raise CallFailedError(code, text, self._told)


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
            prepare=lambda manifest: self._prepared(length),
            controls=lambda manifest: _Watched(self),
            opener=lambda controls: controls,
            note=lambda event, **fields: "",
        )
        self.runs = Runs(tools, 600.0)
        self.servicer = PartyServicer(self.runs)
        context = contextvars.copy_context()
        context.run(NODE.set, self)
        self.world.loop.call_soon(self.runs.take_up, context=context)

    @staticmethod
    def _prepared(length: int) -> Prepared:
        algorithm: Any = Additive(length)
        plan: Any = None
        return Prepared(algorithm, plan, np.zeros(length), lambda ask: length, lambda theta: {}, lambda theta: {})

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
