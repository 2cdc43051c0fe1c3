"""gRPC over mutual TLS 1.3: credentials that renew themselves, and channels that know whom they dial.

TLS is given pinned keys to trust and nothing else (`pins`): a client that of the peer it means, a server those of all
that it has pinned. So no certificate that the authority issues opens a connection, whatever it says. A client expects
the host name that follows from the peer's identity besides; a server recognises clients by `authorization`. Imports
grpc and this folder only.
"""

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import grpc

from parley.federation.errors import (
    CertificateError,
    FederationError,
    NotAuthenticatedError,
    NotAuthorisedError,
    NotPinnedError,
    PinError,
    RevokedError,
    WrongIdentityError,
)
from parley.federation.names import NodeName
from parley.node import logs, tls
from parley.node.credentials import Identity, NodeFolder
from parley.node.newer import StrictAioChannel, StrictChannel
from parley.node.pins import Pins
from parley.node.refusals import words

log = logs.logger()
EARLIER = "{} does not know this call, it is of an earlier release: upgrade it first, docs/upgrade.md has the order"
AGAIN_SECONDS = 0.5
"""Between looks at an identity that cannot be used."""


class InUse:
    """A folder's identity as it is now, with its pins.

    An identity that cannot be used leaves the one before in use: it is as good as before, and a node that stops would
    help nobody. Pins that cannot be read are trust in doubt: nobody is trusted until they can.
    """

    def __init__(self, folder: NodeFolder) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._stamp, self._identity = folder.stamp(), folder.load()
        self._failed: str | None = None
        self._again = 0.0

    def __call__(self) -> Identity:
        stamp = ""
        try:
            if (stamp := self._folder.stamp()) == self._stamp:
                return self._identity
            with self._lock:
                if stamp != self._stamp and (stamp != self._failed or time.monotonic() >= self._again):
                    self._take(stamp)
        except FederationError as error:
            self._again = time.monotonic() + AGAIN_SECONDS
            if isinstance(error, PinError) and self._identity.pins.held.keys() != {self._identity.name}:
                mine, self._stamp = self._identity, ""  # whatever is there next is looked at
                self._identity = replace(mine, pins=Pins().with_own(mine.name, mine.pin))
            if stamp != self._failed:
                self._failed = stamp
                log.error("the newly installed certificate, or pins, cannot be used", error=error)
        return self._identity

    def _take(self, stamp: str) -> None:
        fresh = self._folder.load()
        if fresh.name != self._identity.name:
            raise WrongIdentityError(f"{fresh.name} was installed where {self._identity.name} runs")
        self._stamp, self._identity = stamp, fresh


LetsIn = Callable[[NodeName], bool]
"""Which of the pinned nodes have business at a listener, besides the node itself."""


def _anybody(name: NodeName) -> bool:
    return True


def server_credentials(folder: NodeFolder, lets_in: LetsIn = _anybody) -> grpc.ServerCredentials:
    """Mutual TLS for a server; every handshake uses what is installed at that moment, so renewal needs no restart.

    For one listener: gRPC asks for the first certificate once. A listener that is not everybody's `lets_in` no others:
    its connections are few, and who has one may keep it.
    """
    tls.require()
    in_use = InUse(folder)
    served = in_use()
    if not served.name.role.serves:
        raise WrongIdentityError(f"{served.name} is a party: its connections are outbound only, it serves nothing")

    def renewed() -> Any:
        nonlocal served
        fresh = in_use()
        if fresh is served:
            return None
        served = fresh
        return _server_configuration(fresh, lets_in)

    return grpc.dynamic_ssl_server_credentials(
        _server_configuration(served, lets_in), renewed, require_client_authentication=True
    )


def _server_configuration(identity: Identity, lets_in: LetsIn) -> Any:
    trusted = [name for name in identity.pins if name == identity.name or lets_in(name)]
    return grpc.ssl_server_certificate_configuration(
        [(identity.key, identity.presented)], identity.pins.anchors(*trusted)
    )


def channel_credentials(identity: Identity, peer: NodeName) -> grpc.ChannelCredentials:
    """Mutual TLS for a client that trusts this peer's key alone; without a pin it trusts nobody."""
    tls.require()
    return grpc.ssl_channel_credentials(identity.pins.anchors(peer), identity.key, identity.presented)


def channel_options(peer: NodeName) -> list[tuple[str, Any]]:
    """The name that the peer's key has to vouch for."""
    return [("grpc.ssl_target_name_override", peer.host_name), ("grpc.default_authority", peer.host_name)]


def open_channel(
    target: str, identity: Identity, peer: NodeName, options: Sequence[tuple[str, Any]] = ()
) -> grpc.Channel:
    """A channel to `peer` and to nobody else, wherever `target` leads."""
    credentials = channel_credentials(identity, peer)
    return StrictChannel(grpc.secure_channel(target, credentials, [*options, *channel_options(peer)]))


def open_aio_channel(
    target: str, identity: Identity, peer: NodeName, options: Sequence[tuple[str, Any]] = ()
) -> StrictAioChannel:
    """The same for asyncio."""
    credentials = channel_credentials(identity, peer)
    return StrictAioChannel(grpc.aio.secure_channel(target, credentials, [*options, *channel_options(peer)]))


class RenewedChannel:
    """A connection that lasts: called it gives the channel to use now, another one for a new certificate or pins.

    Several threads call it: a server's noise and its openings go over one.
    """

    def __init__(
        self, address: str, folder: NodeFolder, peer: NodeName, options: Sequence[tuple[str, Any]] = ()
    ) -> None:
        self._address, self._folder, self._peer, self._options = address, folder, peer, options
        self._lock = threading.Lock()
        self._in_use: InUse | None = None
        self._identity: Identity | None = None
        self._channels = list[grpc.Channel]()
        _renewed.add(self)

    def __call__(self) -> grpc.Channel:
        """A FederationError where there is no certificate to dial with, and never was."""
        with self._lock:
            if self._in_use is None:
                self._in_use = InUse(self._folder)
            if (identity := self._in_use()) is not self._identity:
                self._channels.append(open_channel(self._address, identity, self._peer, self._options))
                self._identity = identity
                for old in self._channels[:-2]:  # the one before may still carry a conversation
                    old.close()
                del self._channels[:-2]
            return self._channels[-1]

    def close(self) -> None:
        with self._lock:
            self._close_all()

    def _close_all(self) -> None:
        for channel in self._channels:
            channel.close()

    def cut(self) -> None:
        """If the authority has revoked the peer: what is under way ends, and the next channel trusts nobody."""
        with self._lock:
            if self._in_use is not None and self._in_use().pins.is_revoked(self._peer):
                self._close_all()
                self._channels.clear()
                self._identity = None


_renewed: weakref.WeakSet[RenewedChannel] = weakref.WeakSet()


def cut_revoked() -> None:
    """Of this process, what lasts and leads to a revoked peer; a call of a party's ends within its long poll."""
    for channel in tuple(_renewed):
        channel.cut()


def refusal_of(error: grpc.RpcError, identity: Identity, peer: NodeName) -> FederationError | None:
    """What a failed call says about trust, as a type; None where it says nothing, such as a server that is down.

    A server that refuses a handshake just closes the connection, so the cause is looked for in this node's own
    identity first: there it can be mended.
    """
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    details = words(str(error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else ""))
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return NotAuthorisedError(f"{peer} refuses: {details}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return FederationError(EARLIER.format(peer))
    if code not in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE):
        return None
    try:
        identity.check()
    except CertificateError as cause:
        return cause
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return NotAuthenticatedError(f"{peer} refuses: {details}")
    if not identity.pins.of(peer):
        return RevokedError(peer) if identity.pins.is_revoked(peer) else NotPinnedError(peer)
    lowered = details.lower()
    broken_off = "failed to connect" in lowered and ("socket closed" in lowered or "reset by peer" in lowered)
    if broken_off or "ssl" in lowered or "certificate" in lowered or "handshake" in lowered:
        return NotAuthenticatedError(
            f"no trust between this node and {peer}: its key is not the one that is pinned here, or it has not pinned "
            "this node's; correct the address, or compare `parley node show` and `parley pin list` on both sides"
        )
    return None
