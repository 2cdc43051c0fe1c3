"""Whether a peer can be reached and is who it should be: TCP, then TLS 1.3 with this node's own certificate.

What gRPC would do at its first call, step by step, so that what fails can be named. Standard library and
`parley.federation` only; no message of parley's is sent.
"""

import datetime as dt
import socket
import ssl
from dataclasses import dataclass

from cryptography import x509
from parley.federation.credentials import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, NodeFolder, name_in
from parley.federation.errors import CertificateError
from parley.federation.names import NodeName, Role

from deploy.node_file import Address

CONNECT_SECONDS = 5.0
FIRST_BYTES_SECONDS = 3.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""HTTP/2's first bytes and an empty SETTINGS frame."""


@dataclass(frozen=True)
class Reached:
    """A peer that answered and accepts this node."""

    name: NodeName
    days_left: float
    """Of its certificate."""
    issued: dt.datetime
    milliseconds: float


class UnreachableError(Exception):
    """It was not reached; what is wrong, and what would mend it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


def probe(address: Address, folder: NodeFolder, role: Role, expected: str | None) -> Reached:
    """Reach the node of that role, and of that name if one is `expected`, or say why not."""
    begun = dt.datetime.now(dt.UTC)
    context = _context(folder)
    try:
        connection = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
    except socket.gaierror:
        raise UnreachableError(f"{address.host} has no address in DNS", "correct the host, or the resolver") from None
    except TimeoutError:
        raise UnreachableError(
            f"{address} did not answer in {CONNECT_SECONDS:g} s", "open the firewall for outbound TCP to it"
        ) from None
    except OSError as error:
        raise UnreachableError(
            f"{address}: {error.strerror}", "start the node there, or correct host and port in node.toml"
        ) from None
    with connection:
        try:
            with context.wrap_socket(connection) as secured:
                certificate = x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
                secured.settimeout(FIRST_BYTES_SECONDS)
                secured.sendall(PREFACE)
                # In TLS 1.3 a server judges the client's certificate after the client's handshake is done.
                answered = bool(secured.recv(9))
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"{address} shows a certificate that this node does not accept: {error.verify_message}",
                "compare the authorities' fingerprints on both sides with `parley node show`; check both clocks",
            ) from None
        except TimeoutError:
            raise UnreachableError(
                f"{address} accepts connections and says nothing", "correct the port: that is no parley listener"
            ) from None
        except (ssl.SSLError, OSError, ValueError):
            raise UnreachableError(
                f"{address} breaks off the handshake with this node",
                "check that this is the right port, and on both sides `parley node show`: authority and expiry",
            ) from None
    if not answered:
        raise UnreachableError(
            f"{address} does not accept this node's certificate", "compare authority and expiry with `parley node show`"
        )
    name = _expected(certificate, address, role, expected)
    now = dt.datetime.now(dt.UTC)
    days = (certificate.not_valid_after_utc - now) / dt.timedelta(days=1)
    return Reached(name, days, certificate.not_valid_before_utc, (now - begun) / dt.timedelta(milliseconds=1))


def _expected(certificate: x509.Certificate, address: Address, role: Role, expected: str | None) -> NodeName:
    try:
        name = name_in(certificate)
    except CertificateError as error:
        raise UnreachableError(f"{address}: {error}", "give it a certificate of the federation's authority") from None
    if name.role is not role or expected not in (None, name.name):
        wanted = f"{role} {expected}" if expected else f"one with the role {role}"
        raise UnreachableError(f"{address} is {name}, not {wanted}", "correct the address, or the name, in node.toml")
    return name


def _context(folder: NodeFolder) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # nodes are known by the URI in their certificate, which is compared above
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(folder.current / AUTHORITY_FILE)
        context.load_cert_chain(folder.current / CERTIFICATE_FILE, folder.current / KEY_FILE)
    except (ssl.SSLError, OSError):
        raise UnreachableError(
            "this node's own certificate cannot be used", "see what `parley node show` says of it"
        ) from None
    return context
