"""Certificates against a real coordinator: who proves no name reaches no handler, and nobody serves in its name."""

import contextlib
import datetime as dt
import socket
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.federation.errors import CertificateError, FederationError, WrongIdentityError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import pins
from parley.node.authority import ThrowAwayAuthority, Validity
from parley.node.credentials import Identity, load_certificate, name_in
from parley.node.transport import channel_options, open_channel, refusal_of
from parley.v1 import coordinator_pb2, coordinator_pb2_grpc
from tests.support.lead import LEAD, Lead, asking, refused
from tests.support.until import GIVE_UP_SECONDS

PARTY = NodeName("cardio", Role.party, "hospital-a")
NOW, DAY = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
PEM, KEY = serialization.Encoding.PEM, (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Shown(Identity):
    """A key under the name that it is pinned for, with whatever enrolment."""

    @property
    def presented(self) -> bytes:
        return pins.presented(self.private, PARTY) + self.certificate


class Bare(Identity):
    """The authority's certificate alone, as it was before keys were pinned."""

    @property
    def presented(self) -> bytes:
        return self.certificate


def made(lead: Lead, uris: list[str], usages: list[Any], authority: bool = False, host: str = "") -> Identity:
    """A certificate that the federation's authority would never sign, signed by it all the same, for the pinned key."""
    signer: Any = lead.authority.authority
    key = lead.authority.issue_as(PARTY).private
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    names += [x509.DNSName(host)] if host else []
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer._key, hashes.SHA256())
    )
    pem = certificate.public_bytes(PEM)
    return Shown(key.private_bytes(PEM, *KEY), pem, signer.certificate.public_bytes(PEM), lead.authority.pins)


CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def own(lead: Lead) -> Identity:
    """The authority's own certificate and key, as if a node's."""
    signer: Any = lead.authority.authority
    pem = signer.certificate.public_bytes(PEM)
    return Shown(signer._key.private_bytes(PEM, *KEY), pem, pem, lead.authority.pins)


def enrolled_elsewhere(lead: Lead) -> Identity:
    """The pinned key, with a certificate by another authority."""
    mine, other = lead.authority.issue_as(PARTY), ThrowAwayAuthority("cardio").authority
    certificate = other.sign(mine.private.public_key(), PARTY, Validity(NOW - DAY, NOW + DAY))
    return Shown(mine.key, certificate.public_bytes(PEM), mine.authority, lead.authority.pins)


STRANGERS: dict[str, Callable[[Lead], Identity]] = {
    "of another authority": enrolled_elsewhere,
    "expired": lambda lead: lead.authority.issue_as(PARTY, Validity(NOW - 2 * DAY, NOW - DAY)),
    "not yet valid": lambda lead: lead.authority.issue_as(PARTY, Validity(NOW + DAY / 4, NOW + DAY / 2)),
    "the authority's own": own,
    "one that may sign": lambda lead: made(lead, [PARTY.uri], [CLIENT], authority=True),
    "two names": lambda lead: made(lead, [PARTY.uri, "parley://cardio/party/hospital-b"], [CLIENT]),
    "no name": lambda lead: made(lead, [], [CLIENT], host="hospital-a"),
    "a name in capitals": lambda lead: made(lead, ["parley://cardio/party/Hospital-A"], [CLIENT]),
    "a name with a path": lambda lead: made(lead, ["parley://cardio/party/hospital-a/../hospital-b"], [CLIENT]),
    "a party that may serve": lambda lead: made(lead, [PARTY.uri], [CLIENT, SERVER], host=LEAD.host_name),
    "a party for servers only": lambda lead: made(lead, [PARTY.uri], [SERVER]),
}


@pytest.mark.parametrize(
    ("kind", "bare"), [*((kind, bare) for kind in STRANGERS for bare in (False, True)), ("in order", True)]
)
def test_who_cannot_prove_a_name_reaches_no_handler(lead: Lead, running: Manifest, kind: str, bare: bool) -> None:
    identity = STRANGERS[kind](lead) if kind in STRANGERS else lead.authority.issue_as(PARTY)
    if bare:
        identity = Bare(identity.key, identity.certificate, identity.authority, identity.pins)
    stub = lead.stub(identity)
    assert refused(lambda: stub.NextRound(asking(running), timeout=GIVE_UP_SECONDS)) in {
        "unavailable",
        "unauthenticated",
    }
    assert refused(lambda: stub.ListRuns(coordinator_pb2.ListRunsRequest(), timeout=GIVE_UP_SECONDS)) in {
        "unavailable",
        "unauthenticated",
    }


def served(identity: Identity) -> tuple[grpc.Server, int]:
    """A server of somebody who does not run this software's checks of its own certificate."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(
        coordinator_pb2_grpc.CoordinatorServiceServicer(), server
    )
    anchors = identity.pins.anchors(PARTY)
    credentials = grpc.ssl_server_credentials([(identity.key, identity.presented)], anchors, True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    return server, port


@pytest.mark.parametrize(
    "who", ["a party", "another coordinator", "an aggregator", "a party with the host's name", "the authority's twin"]
)
def test_nobody_serves_in_the_coordinators_name(lead: Lead, who: str) -> None:
    identity = {
        "a party": lambda: lead.authority.issue_as(PARTY),
        "another coordinator": lambda: lead.authority.issue_as(NodeName("cardio", Role.coordinator, "rival")),
        "an aggregator": lambda: lead.authority.issue_as(NodeName("cardio", Role.aggregator, "lead")),
        "a party with the host's name": lambda: made(lead, [PARTY.uri], [CLIENT], host=LEAD.host_name),
        "the authority's twin": lambda: lead.authority.twin(LEAD),
    }[who]()
    server, port = served(identity)
    mine = lead.authority.issue_as(PARTY)
    try:
        with open_channel(f"127.0.0.1:{port}", mine, LEAD) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
            with pytest.raises(grpc.RpcError) as raised:
                stub.ListRuns(coordinator_pb2.ListRunsRequest(), timeout=GIVE_UP_SECONDS)
        assert isinstance(raised.value, grpc.Call)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert isinstance(refusal_of(raised.value, mine, LEAD), FederationError)
    finally:
        server.stop(0)


def test_no_certificate_and_no_tls_get_nothing(lead: Lead) -> None:
    root = lead.authority.pins.anchors(LEAD)
    request = coordinator_pb2.ListRunsRequest()
    channel: Any
    for channel in (
        grpc.secure_channel(f"127.0.0.1:{lead.port}", grpc.ssl_channel_credentials(root), channel_options(LEAD)),
        grpc.insecure_channel(f"127.0.0.1:{lead.port}"),
    ):
        stub: Any = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
        assert refused(lambda s=stub: s.ListRuns(request, timeout=GIVE_UP_SECONDS)) == "unavailable"  # type: ignore[misc]
        channel.close()
    with socket.create_connection(("127.0.0.1", lead.port)) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        raw.settimeout(GIVE_UP_SECONDS)
        with contextlib.suppress(ConnectionResetError):
            assert b"200" not in raw.recv(4096)


def test_a_name_that_no_library_can_read_is_no_name(lead: Lead) -> None:
    """A general name of a kind that `cryptography` does not know raises an error of its own there."""
    signer: Any = lead.authority.authority
    key = ec.generate_private_key(ec.SECP256R1())
    x400 = bytes([0x30, 0x04, 0xA3, 0x02, 0x30, 0x00])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.17"), x400), critical=False)
        .sign(key, hashes.SHA256())
    )
    with pytest.raises(WrongIdentityError):
        name_in(x509.load_pem_x509_certificate(certificate.public_bytes(PEM)))


def version_two(certificate: bytes) -> bytes:
    """The same with a version that X.509 does not have; nobody has to have signed it for a parser to stumble."""
    import base64

    der = bytearray(base64.b64decode(b"".join(certificate.splitlines()[1:-1])))
    at = der.index(b"\xa0\x03\x02\x01\x02")
    der[at + 4] = 1
    text = base64.encodebytes(bytes(der))
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


def test_a_certificate_that_no_library_can_read_is_none(lead: Lead) -> None:
    with pytest.raises(CertificateError):
        load_certificate(version_two(lead.authority.issue_as(PARTY).certificate))
