"""A node's proof of who it is: its key, which peers have pinned, and the authority's certificate that enrols it."""

import datetime as dt
import hashlib
import os
import stat
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from parley.federation.errors import (
    CertificateError,
    ExpiredError,
    IdentityError,
    KeyExposedError,
    NotYetValidError,
    PinError,
    WrongAuthorityError,
    WrongIdentityError,
)
from parley.federation.files import file_bytes
from parley.federation.names import NodeName
from parley.node.pins import PIN_FILE, UNREADABLE, Pins, key_of, presented, read_pins
from parley.node.revocation import REVOKED_FILE, RevocationError, Revoked, held
from parley.privacy.durable import stamp

MOST_FILE_BYTES = 1 << 16
Kind = TypeVar("Kind", bound=x509.ExtensionType)
KEY_FILE, CERTIFICATE_FILE, AUTHORITY_FILE = "node.key", "node.crt", "authority.crt"


def fingerprint(der: bytes) -> str:
    """SHA-256 in groups that two people can read to each other."""
    digest = hashlib.sha256(der).hexdigest()
    return ":".join(digest[start : start + 4] for start in range(0, 64, 4))


def certificate_fingerprint(certificate: x509.Certificate) -> str:
    return fingerprint(certificate.public_bytes(serialization.Encoding.DER))


def read_file(path: Path) -> bytes:
    """A small file, or one line that says why not."""
    too_long = ": that is neither a key nor a certificate"
    return file_bytes(
        path, lambda what: CertificateError(f"{path.name} {what}"), most_bytes=MOST_FILE_BYTES, too_long=too_long
    )


def read_private(path: Path) -> bytes:
    """A key file; refused where anyone but its owner could have read it."""
    try:
        status = path.stat()
    except OSError as error:
        raise CertificateError(f"{path.name} cannot be read: {error.strerror}") from None
    if status.st_uid != os.geteuid():
        raise KeyExposedError(f"{path.name} belongs to another user of this machine: run as its owner")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise KeyExposedError(
            f"{path.name} has mode {stat.S_IMODE(status.st_mode):o}, others can read it: make a new key, or chmod 600 "
            "if you know that nobody did"
        )
    return read_file(path)


def write_private(path: Path, data: bytes) -> None:
    """A new file of mode 600, on disk when this returns; an existing one is never opened."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def load_certificate(data: bytes, what: str = "the certificate") -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except UNREADABLE:
        raise CertificateError(
            f"{what} is not a PEM certificate: give the file that `parley ca approve` wrote"
        ) from None


def name_in(certificate: x509.Certificate) -> NodeName:
    """The node that a certificate names: exactly one URI, nothing else counts."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
        if len(uris) != 1:
            raise WrongIdentityError(f"the certificate carries {len(uris)} URIs: a node's has exactly one")
        return NodeName.parse(uris[0])
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        raise WrongIdentityError("the certificate names no node: request one with `parley node request`") from None
    except IdentityError as error:
        raise WrongIdentityError(f"the certificate names no node: {error}") from None


def check_time(certificate: x509.Certificate, now: dt.datetime | None = None) -> None:
    """Valid now, or a refusal that says which way it is off."""
    now = now or dt.datetime.now(dt.UTC)
    if now < certificate.not_valid_before_utc:
        raise NotYetValidError(
            f"the certificate is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: set the clock "
            "right, or wait"
        )
    if now > certificate.not_valid_after_utc:
        raise ExpiredError(
            f"the certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: renew it with "
            "`parley node renew`"
        )


def check_authority(certificate: x509.Certificate, authority: x509.Certificate) -> None:
    """Signed by that authority, which may sign."""
    constraints = _extension(authority, x509.BasicConstraints)
    if constraints is None or not constraints.ca:
        raise WrongAuthorityError("the authority's certificate may not sign others: install the federation's own")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise WrongAuthorityError(
            "the certificate is not signed by this federation's authority: have it approved there"
        ) from None


def check_usage(certificate: x509.Certificate, name: NodeName) -> None:
    """No authority itself, and for the purposes of its role: a party's certificate cannot serve."""
    constraints = _extension(certificate, x509.BasicConstraints)
    usage = _extension(certificate, x509.ExtendedKeyUsage)
    needed = {ExtendedKeyUsageOID.CLIENT_AUTH} | ({ExtendedKeyUsageOID.SERVER_AUTH} if name.role.serves else set())
    if constraints is None or constraints.ca:
        raise CertificateError("the certificate could sign others: a node's must not, have a new one approved")
    if usage is None or set(usage) != needed:
        raise CertificateError(f"the certificate is not for the purposes of a {name.role}: have a new one approved")


def _extension(certificate: x509.Certificate, kind: type[Kind]) -> Kind | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return None


@dataclass(frozen=True)
class Identity:
    """A private key, the certificate that enrols its holder and the authority's, all PEM; and whose keys it trusts."""

    key: bytes
    certificate: bytes
    authority: bytes
    pins: Pins = field(default_factory=Pins, compare=False)

    @cached_property
    def parsed(self) -> x509.Certificate:
        return load_certificate(self.certificate)

    @cached_property
    def private(self) -> ec.EllipticCurvePrivateKey:
        try:
            key = serialization.load_pem_private_key(self.key, None)
        except (ValueError, TypeError):
            raise CertificateError("the key is not a plain PEM private key: request a new certificate") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError("the node's key is of another kind: request a new certificate")
        return key

    @property
    def pin(self) -> bytes:
        """What peers pin: this node's public key."""
        return key_of(self.private.public_key())

    @cached_property
    def presented(self) -> bytes:
        """What TLS shows, PEM: this name under this key, which peers have pinned, then the enrolment of both."""
        return presented(self.private, self.name) + self.certificate

    @property
    def name(self) -> NodeName:
        return name_in(self.parsed)

    @property
    def fingerprint(self) -> str:
        return certificate_fingerprint(self.parsed)

    @property
    def expires(self) -> dt.datetime:
        return self.parsed.not_valid_after_utc

    def check(self, now: dt.datetime | None = None) -> None:
        """Raise a typed refusal unless peers of the federation would accept this identity now."""
        authority = load_certificate(self.authority, "the authority's certificate")
        check_authority(self.parsed, authority)
        check_usage(self.parsed, self.name)
        check_time(authority, now)
        check_time(self.parsed, now)
        if self.private.public_key() != self.parsed.public_key():
            raise CertificateError("key and certificate do not belong together: install the one made for this key")

    def save(self, folder: Path) -> None:
        """As three files of a new folder; the key with mode 600."""
        folder.mkdir(parents=True, mode=0o700)
        write_private(folder / KEY_FILE, self.key)
        (folder / CERTIFICATE_FILE).write_bytes(self.certificate)
        (folder / AUTHORITY_FILE).write_bytes(self.authority)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote, or what `parley node install` did; not checked yet."""
        return cls(
            read_private(folder / KEY_FILE),
            read_file(folder / CERTIFICATE_FILE),
            read_file(folder / AUTHORITY_FILE),
        )


@dataclass(frozen=True)
class NodeFolder:
    """Where a node keeps its identities: `current` is a link to the one in use, so a renewal is one atomic step.

    Its pins are beside them, in a file that is replaced as a whole.
    """

    path: Path

    @property
    def current(self) -> Path:
        return self.path / "current"

    @property
    def pin_file(self) -> Path:
        return self.path / PIN_FILE

    @property
    def installed(self) -> Path:
        """The folder that `current` leads to now."""
        try:
            return self.path / os.readlink(self.current)
        except OSError:
            raise CertificateError(
                "this node has no certificate installed: `parley node request`, have it approved, `parley node install`"
            ) from None

    def stamp(self) -> str:
        """Changes with the identity, the pins and what is revoked: the time to load again, and to dial anew."""
        return f"{self.installed.name} {stamp(self.pin_file)} {stamp(self.path / REVOKED_FILE)}"

    def revoked(self) -> Revoked | None:
        """The newest list of its authority that this node has."""
        authority = read_file(self.installed / AUTHORITY_FILE)
        return held(self.path, load_certificate(authority, "the authority's certificate"))

    def load(self) -> Identity:
        """The identity in use, checked, with its pins."""
        identity = Identity.load(self.installed)  # one read of the link: three files of one identity
        identity.check()
        pins = read_pins(self.pin_file)
        if any(identity.pin in pins.of(name) for name in pins if name != identity.name):
            raise PinError(f"{PIN_FILE} has this node's own key under another name: remove it with `parley pin remove`")
        try:
            revoked = self.revoked()
        except RevocationError as error:
            raise PinError(str(error)) from None  # in doubt about trust: nobody is trusted
        gone = revoked.keys if revoked is not None else frozenset[bytes]()
        return replace(identity, pins=pins.without(gone).with_own(identity.name, identity.pin))
