"""A node's side of its certificates: make a key, ask, install, renew; see `federation.credentials.NodeFolder`.

    NODE/pending/node.key, request.pem       a request that waits for approval; the key never leaves this folder's disk
    NODE/rotation.json                       of the last rotation: what peers accept, signed by both keys
    NODE/identities/FINGERPRINT/             node.key, node.crt, authority.crt
    NODE/current -> identities/FINGERPRINT   what is in use

A renewal asks for another certificate for the same key: peers have pinned the key, so nothing changes for them. A
rotation makes another key, which each peer's operator has to accept. Either is a second request beside the certificate
in use; installing it moves the link in one step, servers pick it up at their next handshake, connections that stand go
on.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from parley.federation.errors import CertificateError, FingerprintError, WrongIdentityError
from parley.federation.names import NodeName
from parley.node.authority import PEM, load_request, request_fingerprint, same_fingerprint
from parley.node.credentials import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    Identity,
    NodeFolder,
    certificate_fingerprint,
    load_certificate,
    read_file,
    read_private,
    write_private,
)
from parley.node.pins import UNREADABLE, key_of
from parley.node.succession import Succession
from parley.privacy.durable import force

REQUEST_FILE, ROTATION_FILE = "request.pem", "rotation.json"


@dataclass(frozen=True)
class Pending:
    """A request that waits for approval."""

    name: NodeName
    fingerprint: str
    path: Path
    pin: bytes
    """Of its key."""

    @property
    def rotation(self) -> Path:
        """What peers have to accept, if this is a rotation."""
        return self.path.parent.parent / ROTATION_FILE


def request(folder: NodeFolder, name: NodeName, key: ec.EllipticCurvePrivateKey | None = None) -> Pending:
    """A request for `name` with that key, or a new one; refused where another node lives, or one waits already."""
    if folder.current.is_symlink() and (held := Identity.load(folder.current).name) != name:
        raise WrongIdentityError(f"this folder is {held}'s: choose another folder for {name}")
    waiting = folder.path / "pending"
    if waiting.exists() and pending(folder) is None:  # interrupted before there was a request: nobody has seen its key
        shutil.rmtree(waiting)
    try:
        waiting.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise CertificateError(
            "a request waits for approval already, see `parley node show`: install its certificate, or remove the "
            "folder `pending` to give it up"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    made = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name.name)]))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name.uri)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    write_private(waiting / KEY_FILE, key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain))
    (waiting / REQUEST_FILE).write_bytes(made.public_bytes(PEM))
    return Pending(name, request_fingerprint(made), waiting / REQUEST_FILE, key_of(key.public_key()))


def renew(folder: NodeFolder) -> Pending:
    """A request for the same name and the same key."""
    held = Identity.load(folder.installed)
    return request(folder, held.name, held.private)


def rotate(folder: NodeFolder) -> Pending:
    """A request for the same name with a new key, while the certificate in use stays in use; and its rotation."""
    held = Identity.load(folder.installed)
    waiting = request(folder, held.name)
    fresh = replace(held, key=read_private(folder.path / "pending" / KEY_FILE))
    waiting.rotation.write_text(Succession.of(held, fresh).text())
    return waiting


def pending(folder: NodeFolder) -> Pending | None:
    """The request that waits, if any."""
    path = folder.path / "pending" / REQUEST_FILE
    if not path.exists():
        return None
    made, name = load_request(read_file(path))
    return Pending(name, request_fingerprint(made), path, key_of(made.public_key()))


def install(folder: NodeFolder, approved: bytes, authority_fingerprint: str | None) -> Identity:
    """Take what `parley ca approve` wrote: the node's certificate, then the authority's.

    The first time, the authority's fingerprint has to be given as its operator read it out; a renewal has to come from
    the authority that is installed, unless the fingerprint of another one is given.
    """
    waiting = pending(folder)
    if waiting is None:
        raise CertificateError("no request waits here: begin with `parley node request`, `renew` or `rotate`")
    certificates = _bundle(approved)
    _trusted(folder, certificates[1], authority_fingerprint)
    key = read_private(folder.path / "pending" / KEY_FILE)
    identity = Identity(key, certificates[0].public_bytes(PEM), certificates[1].public_bytes(PEM))
    identity.check()
    if identity.name != waiting.name:
        raise WrongIdentityError(f"the certificate is for {identity.name} and the request was for {waiting.name}")
    home = folder.path / "identities" / identity.fingerprint.replace(":", "")[:32]
    if not (folder.current.is_symlink() and folder.current.resolve() == home.resolve()):
        if home.exists():  # an installation that was interrupted before the link moved
            shutil.rmtree(home)
        identity.save(home)
        _sync(home)
        _point(folder, home)
    shutil.rmtree(folder.path / "pending")
    return folder.load()


def _bundle(data: bytes) -> list[x509.Certificate]:
    try:
        certificates = x509.load_pem_x509_certificates(data)
    except UNREADABLE:
        certificates = []
    if len(certificates) != 2:
        raise CertificateError(
            "expected two certificates, the node's and the authority's: give the file of `parley ca approve`"
        )
    return certificates


def _trusted(folder: NodeFolder, authority: x509.Certificate, expected: str | None) -> None:
    if expected is not None:
        if not same_fingerprint(expected, certificate_fingerprint(authority)):
            raise FingerprintError(
                "the authority's fingerprint is not the one given: have its operator read it again from "
                "`parley ca show`; if it still differs, the certificate was exchanged on its way"
            )
        return
    if not folder.current.is_symlink():
        raise FingerprintError("the first installation needs --authority, the fingerprint of `parley ca show`")
    held = load_certificate(read_file(folder.current / AUTHORITY_FILE), AUTHORITY_FILE)
    if held != authority:
        raise FingerprintError(
            "the certificate comes with another authority than the installed one: give its fingerprint as --authority"
        )


def _sync(folder: Path) -> None:
    for path in (*(folder / name for name in (CERTIFICATE_FILE, AUTHORITY_FILE)), folder, folder.parent):
        force(path)


def _point(folder: NodeFolder, home: Path) -> None:
    """Move the link in one step: a reader sees the old identity or the new one, whole."""
    link = folder.path / "current.new"
    link.unlink(missing_ok=True)
    link.symlink_to(home.relative_to(folder.path))
    link.replace(folder.current)
