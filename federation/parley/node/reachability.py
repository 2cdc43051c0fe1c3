"""Whether a peer can be reached and has the key that is pinned: TCP, then TLS 1.3 with this node's own key.

What gRPC would do at its first call, step by step, so that what fails can be named. Standard library and
`parley.federation` only; no message of parley's is sent.
"""

import datetime as dt
import os
import shlex
import socket
import ssl
from dataclasses import dataclass

from parley.federation.errors import FederationError, NotPinnedError
from parley.federation.names import NodeName
from parley.node.credentials import NodeFolder
from parley.node.node_file import Address
from parley.node.proxies import Proxy, ProxyError, proxy_to

CONNECT_SECONDS = 5.0
FIRST_BYTES_SECONDS = 3.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""HTTP/2's first bytes and an empty SETTINGS frame."""


@dataclass(frozen=True)
class Reached:
    """A peer that answered and accepts this node."""

    name: NodeName
    proxy: Proxy | None
    """Which passed everything through."""
    milliseconds: float


class UnreachableError(Exception):
    """It was not reached; what is wrong, and what would mend it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


def probe(address: Address, folder: NodeFolder, peer: NodeName) -> Reached:
    """Reach that node, or say why not."""
    begun = dt.datetime.now(dt.UTC)
    context = _context(folder, peer)
    proxy = proxy_to(address.host)
    try:
        connection = (
            proxy.connect(address.host, address.port, CONNECT_SECONDS) if proxy is not None
            else socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        )  # fmt: skip
    except ProxyError as error:
        raise UnreachableError(
            str(error),
            f"`export no_grpc_proxy={address.host}` where the node runs, to dial directly; or have the proxy allow it",
        ) from None
    except socket.gaierror:
        raise UnreachableError(
            f"{address.host} has no address in DNS",
            f"correct the host in node.toml, or the resolver: `getent hosts {address.host}`",
        ) from None
    except TimeoutError:
        raise UnreachableError(
            f"{address} did not answer in {CONNECT_SECONDS:g} s",
            f"open the firewall for outbound TCP to it: `nc -vz {address.host} {address.port}` tries it",
        ) from None
    except OSError as error:
        raise UnreachableError(
            f"{address}: {error.strerror}",
            f"start the node there, or correct node.toml: `nc -vz {address.host} {address.port}` tries it",
        ) from None
    with connection:
        try:
            with context.wrap_socket(connection) as secured:
                secured.settimeout(FIRST_BYTES_SECONDS)
                secured.sendall(PREFACE)
                # In TLS 1.3 a server judges the client's certificate after the client's handshake is done.
                answered = bool(secured.recv(9))
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"{address} does not have the key that is pinned for {peer}: {error.verify_message}",
                "correct the address; if it is right, have its operator read out the pin of `parley node show` there",
            ) from None
        except TimeoutError:
            raise UnreachableError(
                f"{address} accepts connections and says nothing",
                f"correct the port, nothing of parley listens there: `ss -ltnp 'sport = :{address.port}'` over there",
            ) from None
        except (ssl.SSLError, OSError, ValueError):
            raise UnreachableError(
                f"{address} breaks off the handshake with this node",
                "check that this is the right port, and `parley pin list` there: has it pinned this node?",
            ) from None
    if not answered:
        raise UnreachableError(
            f"{address} does not accept this node's key",
            "read out the pin of `parley node show` to its operator, for `parley pin add` there",
        )
    return Reached(peer, proxy, (dt.datetime.now(dt.UTC) - begun) / dt.timedelta(milliseconds=1))


def _context(folder: NodeFolder, peer: NodeName) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the key that is trusted is the peer's alone
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    try:
        identity = folder.load()
        identity.pins.require(peer)
        context.load_verify_locations(cadata=identity.pins.anchors(peer).decode())
        handle = os.memfd_create("identity", os.MFD_CLOEXEC)  # `ssl` reads keys from files only
        try:
            os.write(handle, identity.key + identity.presented)
            context.load_cert_chain(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
    except NotPinnedError as error:
        problem, _, fix = str(error).partition(": ")
        raise UnreachableError(problem, fix) from None
    except (FederationError, ssl.SSLError, OSError):
        raise UnreachableError(
            "this node's own certificate cannot be used",
            f"`parley node show --folder {shlex.quote(str(folder.path))}` says why",
        ) from None
    return context
