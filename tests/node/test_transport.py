"""Real servers on loopback: who gets in, who does not, and by which type of refusal. Sync and asyncio servers alike."""

import asyncio
import datetime as dt
import socket
import ssl
import threading
import time
from concurrent import futures
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509

from parley.demo.local import ReservedPort
from parley.federation.errors import (
    CertificateError,
    ExpiredError,
    FederationError,
    NotAuthenticatedError,
    NotPinnedError,
    NotYetValidError,
    WrongAuthorityError,
    WrongIdentityError,
)
from parley.federation.names import NodeName, Role
from parley.node import installation as nodes
from parley.node import pins, transport, trust
from parley.node.authority import PEM, Authority, ThrowAwayAuthority, Validity, request_fingerprint
from parley.node.credentials import Identity, NodeFolder
from parley.node.succession import Succession
from parley.node.transport import (
    RenewedChannel,
    channel_options,
    open_aio_channel,
    open_channel,
    refusal_of,
    server_credentials,
)
from tests.support.served import (
    ALLOWED,
    AUTHORITY,
    SERVER,
    Served,
    authorizer,
    call,
)
from tests.support.until import GIVE_UP_SECONDS

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


class Raw(Identity):
    """Shows what it is given, as somebody might who does not run this software."""

    @property
    def presented(self) -> bytes:
        return self.certificate


def strangers() -> dict[str, tuple[Identity, type[FederationError]]]:
    mine = AUTHORITY.issue_as(ALLOWED).authority
    other = replace(ThrowAwayAuthority("cardio").issue_as(ALLOWED), pins=AUTHORITY.pins)
    foreign = ThrowAwayAuthority("elsewhere").issue("hospital-a", Role.party)
    self_signed = other.authority
    return {
        "wrong authority": (replace(other, authority=mine), WrongAuthorityError),
        "other federation": (replace(foreign, authority=mine), WrongAuthorityError),
        "self-signed": (replace(other, certificate=self_signed, authority=mine), CertificateError),
        "expired": (AUTHORITY.issue_as(ALLOWED, Validity(NOW - 2 * DAY, NOW - DAY)), ExpiredError),
        "not yet valid": (AUTHORITY.issue_as(ALLOWED, Validity(NOW + DAY / 4, NOW + DAY / 2)), NotYetValidError),
    }


@pytest.mark.parametrize("kind", list(strangers()))
def test_who_cannot_prove_a_name_never_reaches_a_handler(served: Served, kind: str) -> None:
    identity, refusal = strangers()[kind]
    if kind == "self-signed":  # with its own key, as a stranger would
        stranger = ThrowAwayAuthority("cardio")
        own = stranger.authority.certificate.public_bytes(PEM)
        key = stranger.authority._key.private_bytes(*private_format())
        identity = Raw(key, own, identity.authority, AUTHORITY.pins)
    with pytest.raises(refusal):
        call(served.port, identity)


def private_format() -> tuple[Any, Any, Any]:
    from cryptography.hazmat.primitives import serialization

    return PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()


def test_without_a_certificate_nobody_gets_in(served: Served) -> None:
    identity = AUTHORITY.issue_as(ALLOWED)
    credentials = grpc.ssl_channel_credentials(identity.pins.anchors(SERVER))
    channel: Any
    with grpc.secure_channel(f"127.0.0.1:{served.port}", credentials, channel_options(SERVER)) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/test.Service/Single")(b"", timeout=GIVE_UP_SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_client_does_not_talk_to_another_server_of_the_federation(served: Served) -> None:
    south = NodeName("cardio", Role.aggregator, "south")
    AUTHORITY.issue_as(south)
    with pytest.raises(NotAuthenticatedError, match="parley://cardio/aggregator/south"):
        call(served.port, AUTHORITY.issue_as(ALLOWED), peer=south)


def test_a_client_does_not_talk_to_a_server_of_another_authority(served: Served) -> None:
    with pytest.raises(NotPinnedError, match="parley pin add parley://cardio/aggregator/north"):
        call(served.port, ThrowAwayAuthority("cardio").issue_as(ALLOWED))


def test_a_server_that_is_down_is_no_question_of_trust() -> None:
    with closing(ReservedPort()) as nobody, pytest.raises(grpc.RpcError):
        call(nobody.number, AUTHORITY.issue_as(ALLOWED))


def test_asyncio_channels_know_whom_they_dial(served: Served) -> None:
    async def ask(peer: NodeName) -> bytes:
        identity = AUTHORITY.issue_as(ALLOWED)
        channel: Any
        async with open_aio_channel(f"127.0.0.1:{served.port}", identity, peer) as channel:
            try:
                return bytes(await channel.unary_unary("/test.Service/Single")(b"", timeout=GIVE_UP_SECONDS))
            except grpc.aio.AioRpcError as error:
                raise (refusal_of(error, identity, peer) or error) from None

    assert asyncio.run(ask(SERVER)) == ALLOWED.uri.encode()
    with pytest.raises(NotAuthenticatedError):
        asyncio.run(ask(NodeName("cardio", Role.aggregator, "south")))


def test_a_party_cannot_serve(tmp_path: Path) -> None:
    with pytest.raises(WrongIdentityError, match="outbound only"):
        server_credentials(AUTHORITY.install(tmp_path / "party", ALLOWED))


def presented(port: int) -> x509.Certificate:
    """The certificate that a server shows at a new handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_SECONDS) as raw,
        context.wrap_socket(raw) as wrapped,
    ):
        return x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")


def test_renewal_needs_no_restart_and_breaks_no_connection(served: Served) -> None:
    client = AUTHORITY.issue_as(ALLOWED)
    first = presented(served.port)
    standing: Any
    with open_channel(f"127.0.0.1:{served.port}", client, SERVER) as standing:
        single = standing.unary_unary("/test.Service/Single")
        assert single(b"", timeout=GIVE_UP_SECONDS) == ALLOWED.uri.encode()
        waiting = nodes.renew(served.folder)
        authority: Authority = AUTHORITY.authority
        certificate = authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
        installed = nodes.install(
            served.folder, certificate.public_bytes(PEM) + authority.certificate.public_bytes(PEM), None
        )
        after = presented(served.port)
        assert after != first
        assert after.public_key() == installed.private.public_key() == first.public_key()
        assert single(b"", timeout=GIVE_UP_SECONDS) == ALLOWED.uri.encode()
    assert call(served.port, client) == ALLOWED.uri


def test_a_pin_that_is_removed_ends_with_the_next_call(served: Served) -> None:
    client = AUTHORITY.issue_as(ALLOWED)
    standing: Any
    with open_channel(f"127.0.0.1:{served.port}", client, SERVER) as standing:
        single = standing.unary_unary("/test.Service/Single")
        assert single(b"", timeout=GIVE_UP_SECONDS) == ALLOWED.uri.encode()
        trust.remove(served.folder, ALLOWED)
        with pytest.raises(grpc.RpcError) as refused:
            single(b"", timeout=GIVE_UP_SECONDS)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(NotAuthenticatedError, match="has not pinned this node's"):
            call(served.port, client)
        trust.add(served.folder, ALLOWED, client.pin)
        assert call(served.port, client) == ALLOWED.uri


def test_pins_that_cannot_be_read_trust_nobody(served: Served) -> None:
    client, written = AUTHORITY.issue_as(ALLOWED), served.folder.pin_file.read_text()
    assert call(served.port, client) == ALLOWED.uri
    for spoil in (lambda path: path.write_text("[[pin"), Path.unlink, lambda path: path.chmod(0o666)):
        spoil(served.folder.pin_file)
        with pytest.raises(NotAuthenticatedError):
            call(served.port, client)
        served.folder.pin_file.write_text(written)
        served.folder.pin_file.chmod(0o600)
        assert call(served.port, client) == ALLOWED.uri


def test_a_new_key_is_trusted_by_those_who_accepted_it_and_breaks_no_connection(served: Served, tmp_path: Path) -> None:
    folders = {place: AUTHORITY.install(tmp_path / place, ALLOWED) for place in ("accepts", "does not")}
    standing: Any
    with open_channel(f"127.0.0.1:{served.port}", folders["accepts"].load(), SERVER) as standing:
        single = standing.unary_unary("/test.Service/Single")
        assert single(b"", timeout=GIVE_UP_SECONDS) == ALLOWED.uri.encode()
        waiting = nodes.rotate(served.folder)
        certificate = AUTHORITY.authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
        bundle = certificate.public_bytes(PEM) + AUTHORITY.authority.certificate.public_bytes(PEM)
        rotation = Succession.parse(waiting.rotation.read_bytes())
        trust.accept(folders["accepts"], rotation, waiting.pin)
        assert call(served.port, folders["accepts"].load()) == ALLOWED.uri  # still with the old key
        nodes.install(served.folder, bundle, None)
        assert single(b"", timeout=GIVE_UP_SECONDS) == ALLOWED.uri.encode()
    assert call(served.port, folders["accepts"].load()) == ALLOWED.uri
    with pytest.raises(NotAuthenticatedError, match="no trust"):
        call(served.port, folders["does not"].load())


@pytest.mark.parametrize("name", [SERVER, ALLOWED])
def test_the_authoritys_twin_is_nobody(served: Served, name: NodeName) -> None:
    """With the server's true pin, so that it is the server that refuses."""
    twin = AUTHORITY.twin(name)
    for identity in (twin, Raw(twin.key, twin.certificate, twin.authority, AUTHORITY.pins)):
        with pytest.raises(NotAuthenticatedError):
            call(served.port, identity)


def test_a_broken_installation_keeps_the_certificate_in_use(served: Served) -> None:
    first = presented(served.port)
    other = AUTHORITY.issue_as(NodeName("cardio", Role.aggregator, "south"))
    other.save(served.folder.path / "identities" / "second")
    for target in ("identities/second", "identities/none"):
        served.folder.current.unlink()
        served.folder.current.symlink_to(target)
        assert presented(served.port) == first


def test_two_threads_ask_for_a_channel_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's noise and its openings do, at its start: the second one finds a channel, not half of one."""
    begun = threading.Event()

    def slowly(*arguments: Any) -> grpc.Channel:
        begun.set()
        time.sleep(0.3)  # time enough for the second one to come
        return open_channel(*arguments)

    monkeypatch.setattr(transport, "open_channel", slowly)
    channel = RenewedChannel("127.0.0.1:1", AUTHORITY.install(tmp_path / "north", SERVER), ALLOWED)
    with futures.ThreadPoolExecutor(2) as threads:
        first = threads.submit(channel)
        assert begun.wait(GIVE_UP_SECONDS)
        assert threads.submit(channel).result() is first.result()
    channel.close()


def test_a_certificate_that_expires_on_a_standing_connection_is_refused(tmp_path: Path) -> None:
    class Context:
        def __init__(self, shown: bytes, enrolment: bytes) -> None:
            self._properties = {"x509_pem_cert": [shown], "x509_pem_cert_chain": [enrolment]}

        def auth_context(self) -> dict[str, list[bytes]]:
            return self._properties

    expired = AUTHORITY.issue_as(ALLOWED, Validity(NOW - 2 * DAY, NOW - DAY))
    rules = authorizer(AUTHORITY.install(tmp_path / "server", SERVER))
    with pytest.raises(NotAuthenticatedError, match="expired"):
        rules.require("/test.Service/Single", Context(pins.presented(expired.private, ALLOWED), expired.certificate))


def test_requests_are_fingerprinted_as_a_whole(tmp_path: Path) -> None:
    waiting = nodes.request(NodeFolder(tmp_path / "node"), ALLOWED)
    made = x509.load_pem_x509_csr(waiting.path.read_bytes())
    assert request_fingerprint(made) == waiting.fingerprint
