"""Which peers answer, and what is wrong with this node itself: said once when it begins, and once when it is over.

A process that is paused, or a cable that is pulled, gives no error for half a minute; whoever waits for such a node has
to be told sooner. So each peer that this node dials is asked by `grpc.health.v1` when nothing was heard of it for a
moment, and peers that dial this node are expected to ask. A party whose rounds come fast asks nothing. A question and
its answer carry, as metadata, which life of its node it comes from and whether that has a trouble of its own. All of it
is public: names, words, times. Nothing here decides anything about a run.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from parley.federation.errors import FederationError
from parley.federation.names import NodeName
from parley.node import logs
from parley.node.authorization import peer_of
from parley.node.credentials import NodeFolder
from parley.node.revoked_lists import Watch
from parley.node.transport import RenewedChannel

log = logs.logger()

QUIET_SECONDS = 0.75
"""Without a word from a peer, until it is asked."""
PATIENCE_SECONDS = 1.0
"""For an answer."""
TURN_SECONDS = 0.25
CALLER_SECONDS = 2.5
"""Without a word from a peer that dials this node, until it counts as silent."""
START_SECONDS = 10.0
"""The same for one that was not heard of yet: federations do not start all at once."""
STALL_SECONDS = 0.75
"""A turn that took so much longer than it should: it is this process that stood still, and nobody is to blame."""
STALL_SAID_SECONDS = 2.0
MOST_CALLERS = 100
"""That ask every QUIET_SECONDS; of more each asks so much less often."""
LEAST_FREE_BYTES = 1 << 20
"""Less is a full disk: a database cannot even grow its log."""
SILENT, UNREACHABLE, DISK_FULL, RESTARTED = "silent", "unreachable", "disk_full", "restarted"
LIFE, TROUBLE = "parley-life", "parley-trouble"
"""Of metadata: a word of each process, drawn when it starts, and what is wrong with it."""
RESTART_SHOWN_SECONDS = 60.0
"""It is over before many could look."""
RESTARTS_APART_SECONDS = 2.0
"""At least, between two lines about restarts of one node: of which it is the node's own word that tells."""
OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 250),  # a node that is back is to be seen at once
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 20_000),  # with it a connection whose bytes are not acknowledged is given up
    ("grpc.keepalive_timeout_ms", 10_000),
]


@dataclass(frozen=True)
class Trouble:
    """Of one node, for as long as it lasts."""

    node: NodeName
    kind: str
    since: float
    """By the monotonic clock: when it was last heard of, when its disk was first seen full, when it was restarted."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since


class Incidents:
    """What is wrong now; a line of the log when that begins, and one when it is over."""

    def __init__(self) -> None:
        self._current: dict[NodeName, Trouble] = {}
        self._restarts: dict[NodeName, float] = {}
        """When that was last said of each."""

    def now(self) -> tuple[Trouble, ...]:
        """And who was restarted within the last minute."""
        late = time.monotonic() - RESTART_SHOWN_SECONDS
        restarted = [
            Trouble(node, RESTARTED, at)
            for node, at in tuple(self._restarts.items())
            if at > late and node not in self._current
        ]
        return (*tuple(self._current.values()), *restarted)

    def concerns(self, node: NodeName) -> bool:
        return node in self._current

    def note(self, node: NodeName, kind: str, since: float) -> None:
        """Not again while it lasts: a node that is silent and then cannot be reached is one incident."""
        held = self._current.get(node)
        if held is None or (held.kind == DISK_FULL) != (kind == DISK_FULL):
            held = Trouble(node, kind, since)
            if kind == DISK_FULL:
                log.warning("a node has no space on its disk", peer=node, kind=kind)
            else:
                log.warning("a node does not answer", peer=node, kind=kind, seconds=max(0.0, held.seconds))
        self._current[node] = Trouble(node, kind, held.since)

    def over(self, node: NodeName) -> None:
        if (held := self._current.pop(node, None)) is not None:
            log.info("a node is well again", peer=node, kind=held.kind, seconds=held.seconds)

    def restarted(self, node: NodeName) -> bool:
        """It is another process that answers now, whether or not its absence was noticed. False if that is to be said
        later: the last line about one is too fresh.
        """
        now = time.monotonic()
        if now - self._restarts.get(node, -RESTARTS_APART_SECONDS) < RESTARTS_APART_SECONDS:
            return False
        self._restarts[node] = now
        log.warning("a node was restarted", peer=node, kind=RESTARTED)
        return True

    def keep(self, nodes: Iterable[NodeName]) -> None:
        """Forget the others: nobody waits for them any more."""
        waited_for = set(nodes)
        for held in (self._current, self._restarts):
            for node in held.keys() - waited_for:
                del held[node]


class Vigil:
    """One per process."""

    def __init__(
        self,
        identity: NodeFolder,
        node: NodeName,
        state: Path,
        dialled: Callable[[], Mapping[NodeName, str]] = dict,
        callers: Callable[[], Mapping[NodeName, float]] = dict,
        quiet_seconds: Callable[[], float] = lambda: QUIET_SECONDS,
    ) -> None:
        """`dialled` are the peers to ask now, and where; `callers` those that should ask, and when (by the monotonic
        clock) they were last heard of in another way.
        """
        self._identity, self._node, self._state = identity, node, state
        self._dialled, self._callers, self._quiet_seconds = dialled, callers, quiet_seconds
        self.incidents = Incidents()
        self._life = secrets.token_hex(8)
        self._heard: dict[NodeName, float] = {}
        self._expected: dict[NodeName, float] = {}
        """Who was not heard of yet, and since when that is waited for."""
        self._said: dict[NodeName, tuple[str, str]] = {}
        """What a peer last told of itself: its life and its trouble."""
        self._lives: dict[NodeName, str] = {}
        """The same when it was last judged."""
        self._asked: dict[NodeName, tuple[float, Any]] = {}
        """Questions under way, and when they were put."""
        self._failed: dict[NodeName, tuple[float, str]] = {}
        """The last question of each that found something wrong: when it was put, and what."""
        self._channels: dict[tuple[NodeName, str], RenewedChannel] = {}
        self._full_since: float | None = None
        self._revoked = Watch(identity)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True, name="vigil")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * PATIENCE_SECONDS)
        self._drop_questions()
        for channel in self._channels.values():
            channel.close()

    # ------------------------------------------------------------ from any thread

    def heard(self, peer: NodeName) -> None:
        """It has called, or answered a call."""
        self._heard[peer] = time.monotonic()

    def told(self, peer: NodeName, metadata: Iterable[Any] | None) -> None:
        """What it says of itself with a question or an answer."""
        found = dict[str, Any](metadata or ())
        if LIFE in found:
            self._said[peer] = str(found[LIFE]), DISK_FULL if found.get(TROUBLE) == DISK_FULL else ""
        self.heard(peer)

    def words(self) -> tuple[tuple[str, str], ...]:
        """What this node says of itself."""
        life = (LIFE, self._life)
        return (life, (TROUBLE, DISK_FULL)) if self.full else (life,)

    @property
    def full(self) -> bool:
        """Whether this node's disk is."""
        return self._full_since is not None

    def troubles(self) -> tuple[Trouble, ...]:
        """Of this node and of others, as they are now."""
        mine = self._full_since
        return (*((Trouble(self._node, DISK_FULL, mine),) if mine is not None else ()), *self.incidents.now())

    # ------------------------------------------------------------ the thread

    def _main(self) -> None:
        looked = time.monotonic()
        while not self._stop.wait(TURN_SECONDS):
            self._look_at_disk()
            self._revoked.look()
            dialled = self._dialled()
            found = self._answers()
            before, looked = looked, time.monotonic()
            if (late := looked - before - TURN_SECONDS) > STALL_SECONDS:
                self._stood_still(late)
                continue
            self._failed = {
                peer: (at, kind) for peer, (at, kind) in {**self._failed, **found}.items() if kind and peer in dialled
            }
            self._judge(dialled)
            self._ask(dialled)

    def _look_at_disk(self) -> None:
        full, now = disk_is_full(self._state), time.monotonic()
        if full and self._full_since is None:
            self._full_since = now
            log.error("this node has no space on its disk", kind=DISK_FULL)
        elif not full and self._full_since is not None:
            log.info("this node has space on its disk again", kind=DISK_FULL, seconds=now - self._full_since)
            self._full_since = None

    def _stood_still(self, seconds: float) -> None:
        """Paused, or on a machine that is very busy: what was not heard meanwhile tells nothing about peers."""
        if seconds > STALL_SAID_SECONDS:
            log.warning("this process stood still", seconds=seconds)
        now = time.monotonic()
        heard = self._heard
        self._failed = {peer: (now, kind) for peer, (at, kind) in self._failed.items() if heard.get(peer, 0.0) <= at}
        for known in (heard, self._expected):
            for peer in list(known):
                if not self.incidents.concerns(peer):  # a trouble from before lasts until it is heard of
                    known[peer] = now
        self._drop_questions()

    def _ask(self, dialled: Mapping[NodeName, str]) -> None:
        """Those of whom nothing was heard lately, and those that are in trouble; nobody twice at once."""
        now, quiet = time.monotonic(), self._quiet_seconds()
        for peer in dialled.keys() - self._asked.keys():
            due = self.incidents.concerns(peer) or now - self._heard.get(peer, -quiet) >= quiet
            if due and (call := self._call(peer, dialled[peer])) is not None:
                self._asked[peer] = now, call

    def _answers(self) -> dict[NodeName, tuple[float, str]]:
        """To the questions that are over: when each was put, and what is wrong, empty where nothing is."""
        over = [peer for peer, (_, call) in self._asked.items() if call.done()]
        asked = {peer: self._asked.pop(peer) for peer in over}
        return {
            peer: (at, self._settled(peer, call))
            for peer, (at, call) in asked.items()
            if call.code() is not grpc.StatusCode.CANCELLED  # which says nothing
        }

    def _drop_questions(self) -> None:
        for _, call in self._asked.values():
            call.cancel()
        self._asked.clear()

    def _call(self, peer: NodeName, address: str) -> Any:
        """A call under way; None where this node cannot dial at all."""
        channel = self._channels.get((peer, address))
        if channel is None:
            channel = self._channels[peer, address] = RenewedChannel(address, self._identity, peer, OPTIONS)
        try:
            stub = health_pb2_grpc.HealthStub(channel())
            request = health_pb2.HealthCheckRequest()
            return stub.Check.future(request, timeout=PATIENCE_SECONDS, metadata=self.words())
        except (FederationError, ValueError):  # no certificate that serves; a channel that was just closed
            return None

    def _settled(self, peer: NodeName, call: Any) -> str:
        """Empty where an answer came. A refusal is one: the node is there."""
        code = call.code()
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return SILENT
        if code is grpc.StatusCode.UNAVAILABLE:
            return UNREACHABLE
        self.told(peer, call.trailing_metadata())
        return ""

    def _judge(self, dialled: Mapping[NodeName, str]) -> None:
        now, callers = time.monotonic(), self._callers()
        peers = {*dialled, *callers}
        self._expected = {peer: since for peer, since in self._expected.items() if peer in peers}
        self.incidents.keep(peers)
        for peer in peers:
            last = max(self._heard.get(peer, 0.0), callers.get(peer, 0.0))
            asked, kind = self._failed.get(peer, (0.0, ""))
            if last > asked:  # in another way than by the question
                kind = ""
            if not kind and peer in callers and now - last > self._caller_seconds():
                kind = SILENT
            if not kind:
                self._well(peer, now)
            elif last or now - self._expected.setdefault(peer, now) > START_SECONDS:
                self.incidents.note(peer, kind, last or self._expected[peer])

    def _caller_seconds(self) -> float:
        return CALLER_SECONDS * max(1.0, self._quiet_seconds() / QUIET_SECONDS)

    def _well(self, peer: NodeName, now: float) -> None:
        """It is there; what it says of itself may be another thing."""
        life, trouble = self._said.get(peer, ("", ""))
        if life and self._lives.setdefault(peer, life) != life and self.incidents.restarted(peer):
            self._lives[peer] = life
        if trouble:
            self.incidents.note(peer, trouble, now)
        else:
            self.incidents.over(peer)


def disk_is_full(folder: Path) -> bool:
    """Whether a node can write no more; a folder that cannot even be looked at is another matter."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES


def quiet_seconds(parties: int) -> float:
    """Between two questions of one of so many parties, so that a server of many is asked no more often."""
    return QUIET_SECONDS * max(1.0, parties / MOST_CALLERS)


class AioHealth(health.aio.HealthServicer):  # type: ignore[misc]
    """`grpc.health.v1` for `grpc.aio` servers: not serving while this node cannot write."""

    def __init__(self, vigil: Vigil) -> None:
        super().__init__()
        self._vigil = vigil

    async def Check(self, request: Any, context: Any) -> Any:
        _exchange(self._vigil, context)
        return _as_it_is(self._vigil, await super().Check(request, context))


class Health(health.HealthServicer):  # type: ignore[misc]
    """The same for `grpc.server`."""

    def __init__(self, vigil: Vigil) -> None:
        super().__init__()
        self._vigil = vigil

    def Check(self, request: Any, context: Any) -> Any:
        _exchange(self._vigil, context)
        return _as_it_is(self._vigil, super().Check(request, context))


def _exchange(vigil: Vigil, context: Any) -> None:
    vigil.told(peer_of(context), context.invocation_metadata())
    context.set_trailing_metadata(vigil.words())


def _as_it_is(vigil: Vigil, answer: Any) -> Any:
    if not vigil.full:
        return answer
    return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
