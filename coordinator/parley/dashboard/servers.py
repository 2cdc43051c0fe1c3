"""What the aggregators and the coordinator itself say of the moment: noise pools, and whom the open round waits for.

Asked only while somebody looks, at most every few seconds, never waited for by a page.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from parley.coordinator.errors import CoordinatorError
from parley.coordinator.operator_client import Presence
from parley.dashboard.views import AuditedPoolView, PoolView
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.v1 import aggregator_pb2

T = TypeVar("T")
POOL_SECONDS = 3.0
PRESENCE_SECONDS = 1.0
STALE = 4
"""Times the pause between two questions: what was said before is out of date when a page is opened again."""
LONGEST_TEXT = 300


class Operator(Protocol):
    """The operator socket (parley.coordinator.operator_client). Calls block, and raise CoordinatorError."""

    def stop(self, run: str, final: bool) -> str: ...

    def resume(self, run: str) -> str: ...

    def presence(self, run: str) -> Presence: ...


class Asked(Generic[T]):
    """A value that is asked for again when it is old, in the background; what is long out of date is told nobody."""

    def __init__(self, every_seconds: float, first: T) -> None:
        self._every, self._first, self.value = every_seconds, first, first
        self._at = self._filled = 0.0
        self._task: asyncio.Task[None] | None = None

    def get(self, ask: Callable[[], Awaitable[T]]) -> T:
        if time.monotonic() - self._at > self._every and (self._task is None or self._task.done()):
            self._at = time.monotonic()
            self._task = asyncio.ensure_future(self._fill(ask))
        return self.value if time.monotonic() - self._filled < STALE * self._every else self._first

    async def _fill(self, ask: Callable[[], Awaitable[T]]) -> None:
        self.value = await ask()
        self._filled = time.monotonic()


Status = Callable[[NodeName], Awaitable[aggregator_pb2.StatusResponse]]
"""Asks one aggregator; raises CoordinatorError."""


@dataclass
class Servers:
    """One per process."""

    status: Status
    operator: Operator
    live: bool = False
    """Whether the operator's socket answered the last time."""
    _pools: dict[str, Asked[PoolView]] = field(default_factory=dict)
    _presences: dict[str, Asked[Presence | None]] = field(default_factory=dict)

    def pools(self, manifest: Manifest) -> tuple[PoolView, ...]:
        return tuple(
            self._pool(name, operator.legal_entity)
            for name, operator in zip(manifest.identities(Role.aggregator), manifest.aggregators, strict=True)
        )

    def _pool(self, name: NodeName, entity: str) -> PoolView:
        unknown = PoolView(name=name.name, legal_entity=entity, answers=False, error="not asked yet")
        asked = self._pools.setdefault(name.uri, Asked(POOL_SECONDS, unknown))

        async def ask() -> PoolView:
            try:
                said = await self.status(name)
            except CoordinatorError as error:
                return PoolView(name=name.name, legal_entity=entity, answers=False, error=str(error)[:LONGEST_TEXT])
            return PoolView(
                name=name.name,
                legal_entity=entity,
                answers=True,
                available=said.pool_available,
                capacity=said.pool_capacity,
                produced=said.pool_produced,
                used=said.pool_used,
                lost=said.pool_lost,
                error=_plain(said.pool_error),
                version=_plain(said.version)[:40],
                share_bytes=said.share_bytes,
                audited=_audited(said.covert),
                evidence=len(said.evidence),
            )

        return asked.get(ask)

    def presence(self, run: str) -> Presence | None:
        """None where no coordinator is running."""
        asked: Asked[Presence | None] = self._presences.setdefault(run, Asked(PRESENCE_SECONDS, None))

        async def ask() -> Presence | None:
            try:
                found = await asyncio.to_thread(self.operator.presence, run)
            except CoordinatorError:
                self.live = False
                return None
            self.live = True
            return found

        return asked.get(ask)


def _audited(said: aggregator_pb2.CovertPool) -> AuditedPoolView | None:
    if not (said.produced or said.lanes):
        return None
    return AuditedPoolView(
        available=said.available,
        capacity=said.capacity,
        lanes=said.lanes,
        audits_made=said.audits_made,
        audits_passed=said.audits_passed,
        resting=_plain(said.resting or said.error if not said.available else ""),
    )


def _plain(text: str) -> str:
    return "".join(each for each in text[:LONGEST_TEXT] if each.isprintable())


def no_aggregators(addresses: Mapping[str, str]) -> Status:
    """For a node without a certificate that could ask them."""

    async def status(name: NodeName) -> aggregator_pb2.StatusResponse:
        raise CoordinatorError(f"{name.name} at {addresses.get(name.name, 'an unknown address')} does not answer")

    return status
