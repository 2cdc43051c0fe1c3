"""gRPC over mutual TLS 1.3: credentials that renew themselves, and channels that know whom they dial.

A client recognises the server it means by the host name that follows from that node's identity (`NodeName.host_name`),
which only that node's certificate carries; a server recognises clients by `authorization`. Imports grpc and this
folder only.
"""

import threading
from collections.abc import Sequence
from typing import Any

import grpc

from parley.federation import logs, tls
from parley.federation.credentials import Identity, NodeFolder
from parley.federation.errors import (
    CertificateError,
    FederationError,
    NotAuthenticatedError,
    NotAuthorisedError,
    WrongIdentityError,
)
from parley.federation.names import NodeName
from parley.federation.refusals import words

log = logs.logger()


def server_credentials(folder: NodeFolder) -> grpc.ServerCredentials:
    """Mutual TLS for a server; every handshake uses what is installed at that moment, so renewal needs no restart.

    For one listener: gRPC asks for the first certificate once.
    """
    tls.require()
    identity = folder.load()
    if not identity.name.role.serves:
        raise WrongIdentityError(f"{identity.name} is a party: its connections are outbound only, it serves nothing")
    lock = threading.Lock()
    last = folder.stamp()

    def renewed() -> Any:
        nonlocal last
        with lock:
            try:
                if (stamp := folder.stamp()) == last:
                    return None
                fresh = folder.load()
                if fresh.name != identity.name:
                    raise WrongIdentityError(f"{fresh.name} was installed where {identity.name} serves")
                last = stamp
            except FederationError as error:
                # The certificate in use is as good as before, and a server that stops would help nobody.
                log.error("the newly installed certificate is not used", error=error)
                return None
            return _server_configuration(fresh)

    return grpc.dynamic_ssl_server_credentials(
        _server_configuration(identity), renewed, require_client_authentication=True
    )


def _server_configuration(identity: Identity) -> Any:
    return grpc.ssl_server_certificate_configuration([(identity.key, identity.certificate)], identity.authority)


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    """Mutual TLS for a client."""
    tls.require()
    return grpc.ssl_channel_credentials(identity.authority, identity.key, identity.certificate)


def channel_options(peer: NodeName) -> list[tuple[str, Any]]:
    """Without these a channel would talk to any node of the federation that answers."""
    return [("grpc.ssl_target_name_override", peer.host_name), ("grpc.default_authority", peer.host_name)]


def open_channel(
    target: str, identity: Identity, peer: NodeName, options: Sequence[tuple[str, Any]] = ()
) -> grpc.Channel:
    """A channel to `peer` and to nobody else, wherever `target` leads."""
    return grpc.secure_channel(target, channel_credentials(identity), [*options, *channel_options(peer)])


def open_aio_channel(
    target: str, identity: Identity, peer: NodeName, options: Sequence[tuple[str, Any]] = ()
) -> grpc.aio.Channel:
    """The same for asyncio."""
    return grpc.aio.secure_channel(target, channel_credentials(identity), [*options, *channel_options(peer)])


class RenewedChannel:
    """A connection that lasts: called it gives the channel to use now, another one for another certificate."""

    def __init__(
        self, address: str, folder: NodeFolder, peer: NodeName, options: Sequence[tuple[str, Any]] = ()
    ) -> None:
        self._address, self._folder, self._peer, self._options = address, folder, peer, options
        self._stamp, self._channels = "", list[grpc.Channel]()

    def __call__(self) -> grpc.Channel:
        """A FederationError where there is no certificate to dial with, and never was."""
        try:
            if (stamp := self._folder.stamp()) != self._stamp:
                fresh = open_channel(self._address, self._folder.load(), self._peer, self._options)
                self._stamp = stamp
                self._channels.append(fresh)
                for old in self._channels[:-2]:  # the one before may still carry a conversation
                    old.close()
                del self._channels[:-2]
        except FederationError as error:
            if not self._channels:
                raise
            log.error("the newly installed certificate is not used", error=error)
        return self._channels[-1]

    def close(self) -> None:
        for channel in self._channels:
            channel.close()


def refusal_of(error: grpc.RpcError, identity: Identity, peer: NodeName) -> FederationError | None:
    """What a failed call says about trust, as a type; None where it says nothing, such as a server that is down.

    A server that refuses a handshake just closes the connection, so the cause is looked for in this node's own
    identity first: there it can be mended.
    """
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    details = words(str(error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else ""))
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return NotAuthorisedError(f"{peer} refuses: {details}")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return NotAuthenticatedError(f"{peer} refuses: {details}")
    if code is not grpc.StatusCode.UNAVAILABLE:
        return None
    try:
        identity.check()
    except CertificateError as cause:
        return cause
    lowered = details.lower()
    if "hostname verification" in lowered or "peer name" in lowered:
        return WrongIdentityError(f"the node that answers is not {peer}: correct the address")
    if "ssl" in lowered or "certificate" in lowered or "handshake" in lowered:
        return NotAuthenticatedError(f"no trust between this node and {peer}: compare authorities and expiry on both")
    return None
