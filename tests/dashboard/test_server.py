"""A dashboard with TLS shows the certificate that is installed, without a restart."""

import asyncio
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509

from parley.dashboard.server import serve
from parley.federation.names import NodeName, Role
from parley.node import installation as nodes
from parley.node.authority import PEM, ThrowAwayAuthority
from parley.node.credentials import NodeFolder
from parley.web import listener
from parley.web.listener import Settings
from tests.support.chromium import reserved_port
from tests.support.folders import coordinator_folder, place_of
from tests.support.until import GIVE_UP_SECONDS, until

AUTHORITY = ThrowAwayAuthority("cardio")
LEAD = NodeName("cardio", Role.coordinator, "lead")
QUICKLY_SECONDS = 0.05


def presented(port: int) -> x509.Certificate:
    """The certificate of a new handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_SECONDS) as raw,
        context.wrap_socket(raw) as wrapped,
    ):
        return x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[NodeFolder, int]:
    monkeypatch.setattr(listener, "RENEWAL_SECONDS", QUICKLY_SECONDS)
    state, _ = coordinator_folder(tmp_path, None)
    folder = AUTHORITY.install(tmp_path / "identity", LEAD)
    port = reserved_port()
    settings = Settings("127.0.0.1", port, folder.current / "node.crt", folder.current / "node.key")
    threading.Thread(target=lambda: asyncio.run(serve(settings, place_of(state))), daemon=True).start()
    return folder, port


def becomes(port: int, wanted: x509.Certificate) -> None:
    def shown() -> bool:
        try:
            return presented(port) == wanted
        except OSError:  # it does not listen yet
            return False

    until(shown, "that the certificate is shown", QUICKLY_SECONDS)


def test_a_renewed_certificate_is_shown_without_a_restart(served: tuple[NodeFolder, int]) -> None:
    folder, port = served
    becomes(port, folder.load().parsed)
    waiting = nodes.rotate(folder)
    certificate = AUTHORITY.authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
    bundle = certificate.public_bytes(PEM) + AUTHORITY.authority.certificate.public_bytes(PEM)
    becomes(port, nodes.install(folder, bundle, None).parsed)


def test_a_pair_that_does_not_fit_leaves_the_certificate_in_use(served: tuple[NodeFolder, int]) -> None:
    folder, port = served
    first = folder.load().parsed
    becomes(port, first)
    broken = folder.path / "identities" / "broken"
    AUTHORITY.twin(LEAD).save(broken)
    (broken / "node.key").write_bytes((folder.current / "node.key").read_bytes())
    for target in ("identities/broken", "identities/none"):
        folder.current.unlink()
        folder.current.symlink_to(target)
        time.sleep(5 * QUICKLY_SECONDS)
        assert presented(port) == first
    third = AUTHORITY.issue_as(LEAD)
    third.save(folder.path / "identities" / "third")
    folder.current.unlink()
    folder.current.symlink_to("identities/third")
    becomes(port, third.parsed)
