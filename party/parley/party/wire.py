"""Calls to the other roles: who is dialled, with which certificate, how long a call may take, what a failure means.

Everything is synchronous: a run is one thread that asks, computes and sends.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc

from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import MOST_WAIT_SECONDS
from parley.node import logs, mentions, refusals, transport
from parley.node.backoff import Backoff
from parley.node.connections import KEEPALIVE
from parley.node.credentials import Identity, NodeFolder
from parley.party.errors import StoppedError
from parley.v1 import aggregator_pb2_grpc, common_pb2, coordinator_pb2_grpc

log = logs.logger()

SHORTEST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.1, 5.0
GRACE_SECONDS = 1.0
"""For an answer to travel, on top of what the callee may wait."""
OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),  # also the time that a connection attempt is given
    ("grpc.max_reconnect_backoff_ms", 5000),
    ("grpc.enable_retries", 0),
]
TRANSIENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
LATER = (common_pb2.REFUSAL_TOO_EARLY, common_pb2.REFUSAL_BUSY, common_pb2.REFUSAL_NEWER)


def wait_seconds(manifest: Manifest) -> float:
    """How long one long poll of this run waits."""
    return min(MOST_WAIT_SECONDS, manifest.deadline_seconds)


def code_of(error: grpc.RpcError) -> grpc.StatusCode | None:
    return error.code() if isinstance(error, grpc.Call) else None


def passing(error: grpc.RpcError) -> bool:
    """Whether an idempotent call may simply be tried again later."""
    refusal = refusals.refusal_in(error)
    return refusal.refusal in LATER if refusal else code_of(error) in TRANSIENT


class Pauses(Backoff):
    """Pauses of a thread, which a request to stop cuts short."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(SHORTEST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
        self._stop = stop

    def pause(self) -> None:
        if self._stop.wait(self.next_seconds()):
            raise StoppedError("this process is ending")


class Wire:
    """One thread's connections; `close` may be called from another one, and ends calls that are under way."""

    def __init__(
        self, folder: NodeFolder, targets: Mapping[NodeName, str], heard: Callable[[NodeName], None] = lambda peer: None
    ) -> None:
        """`heard` is told of whom an answer has come."""
        self._targets, self.heard = dict(targets), heard
        self._lock = threading.Lock()
        self._closed = False
        self.mention = ""
        """This party's newest event of the run, which `ask` mentions."""
        self.mentioned: dict[NodeName, str] = {}
        """And the newest that each peer has mentioned."""
        self._channels: dict[NodeName, grpc.Channel] = {}
        self._in_use = transport.InUse(folder)
        self.identity: Identity = self._in_use()
        self._dial(self.identity)

    def refresh(self) -> None:
        """Dial again if another certificate was installed, or pins have changed; a look at two files otherwise."""
        identity = self._in_use()
        if identity is self.identity:
            return
        log.info("dialling with the newly installed certificate")
        self.identity = identity
        self._dial(identity)

    def ask(self, peer: NodeName, method: str, request: Any, seconds: float) -> Any:
        """A call that mentions this party's newest event, if there is one; what the answer mentions is kept."""
        metadata = mentions.of(self.mention) if self.mention else None
        response, call = getattr(self.stubs[peer], method).with_call(request, timeout=seconds, metadata=metadata)
        self.heard(peer)
        if (event := mentions.by(peer, call.trailing_metadata())) is not None:
            self.mentioned[peer] = event
        return response

    def described(self, error: grpc.RpcError, peer: NodeName) -> FederationError:
        """A failed call, as what it says about the peer or about trust."""
        found = refusals.refusal_in(error) or transport.refusal_of(error, self.identity, peer)
        if found is not None:
            return found
        code = code_of(error)
        return FederationError(f"{peer} does not answer ({code.name.lower() if code else 'unknown'})")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for channel in self._channels.values():
                channel.close()

    def _dial(self, identity: Identity) -> None:
        with self._lock:
            if self._closed:
                raise StoppedError("this process is ending")
            for channel in self._channels.values():
                channel.close()
            self._channels = {
                peer: transport.open_channel(target, identity, peer, OPTIONS) for peer, target in self._targets.items()
            }
        self.stubs: dict[NodeName, Any] = {}
        for peer, channel in self._channels.items():
            make = (
                coordinator_pb2_grpc.CoordinatorServiceStub
                if peer.role is Role.coordinator
                else aggregator_pb2_grpc.ShareServiceStub
            )
            self.stubs[peer] = make(channel)

    @contextlib.contextmanager
    def stopping(self, stop: threading.Event) -> Iterator[None]:
        """What `close` does to a call under way is a stop, not a failure."""
        try:
            yield
        except (grpc.RpcError, ValueError):  # a closed channel refuses further calls with a ValueError
            if stop.is_set():
                raise StoppedError("this process is ending") from None
            raise
