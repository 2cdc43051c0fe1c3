"""The federation's authority: its key, what it signs, and an authority that lives only as long as a benchmark.

The authority is one folder, `authority.key` (mode 600, encrypted if a passphrase is given), `authority.crt` and
`issued.jsonl`. Its name holds the federation and nothing of a release, so it outlives them. It decides what a
certificate says: of a request it takes the public key and the one URI, and checks both.
"""

import datetime as dt
import hmac
import ipaddress
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.federation.errors import CertificateError, FingerprintError, IdentityError, WrongIdentityError
from parley.federation.names import LABEL_RULE, NodeName, Role, is_label
from parley.node import trust
from parley.node.credentials import (
    Identity,
    NodeFolder,
    certificate_fingerprint,
    fingerprint,
    load_certificate,
    read_file,
    read_private,
    write_private,
)
from parley.node.pins import UNREADABLE, Pin, Pins, key_of, key_text
from parley.node.revocation import Entry, Revoked, signed

PEM = serialization.Encoding.PEM
BACKDATED = dt.timedelta(minutes=5)
"""Against clocks that differ a little."""
AUTHORITY_LIFETIME = dt.timedelta(days=3650)
NODE_LIFETIME = dt.timedelta(days=90)
LONGEST_NODE_LIFETIME = dt.timedelta(days=398)
SHORTEST_PASSPHRASE = 12


def same_fingerprint(one: str, other: str) -> bool:
    """Colons, spaces and letter case aside; all 64 digits count."""
    plain = [text.replace(":", "").replace(" ", "").strip().lower().encode() for text in (one, other)]
    return len(plain[0]) == 64 and hmac.compare_digest(*plain)


def load_request(data: bytes) -> tuple[x509.CertificateSigningRequest, NodeName]:
    """A request whose signature proves that its sender has the key, and the node that it is for."""
    try:
        request = x509.load_pem_x509_csr(data)
        if not request.is_signature_valid or not isinstance(request.public_key(), ec.EllipticCurvePublicKey):
            raise CertificateError("the request is not signed by an elliptic-curve key of its own: make it again")
        alternatives = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = list(alternatives)
        if len(names) != 1 or not isinstance(names[0], x509.UniformResourceIdentifier):
            raise WrongIdentityError("the request must ask for exactly one URI: make it with `parley node request`")
        return request, NodeName.parse(names[0].value)
    except (x509.ExtensionNotFound, x509.DuplicateExtension):
        raise WrongIdentityError("the request names no node: make it with `parley node request`") from None
    except UNREADABLE:
        raise CertificateError(
            "this is not a PEM certificate request: give the file of `parley node request`"
        ) from None
    except IdentityError as error:
        raise WrongIdentityError(f"the request names no node: {error}") from None


def request_fingerprint(request: x509.CertificateSigningRequest) -> str:
    """Over all of it, key and name alike."""
    return fingerprint(request.public_bytes(serialization.Encoding.DER))


def federation_of(authority: x509.Certificate) -> str:
    """The federation that an authority's certificate is for."""
    names = authority.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if len(names) != 1 or not is_label(str(names[0].value)):
        raise CertificateError("authority.crt names no federation: restore it from a backup")
    return str(names[0].value)


@dataclass(frozen=True)
class Validity:
    """When a certificate is good; tests make expired ones with it."""

    begins: dt.datetime
    ends: dt.datetime

    @classmethod
    def lasting(cls, lifetime: dt.timedelta) -> Self:
        now = dt.datetime.now(dt.UTC)
        return cls(now - BACKDATED, now + lifetime)


class Authority:
    """An authority in memory."""

    def __init__(self, federation: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.federation, self._key, self.certificate = federation, key, certificate

    @classmethod
    def create(cls, federation: str, lifetime: dt.timedelta = AUTHORITY_LIFETIME) -> Self:
        if not is_label(federation):
            raise IdentityError(f"federation is {federation!r}: use {LABEL_RULE}")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, f"parley authority of {federation}"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation),
            ]
        )
        builder = _builder(name, name, key.public_key(), key.public_key(), Validity.lasting(lifetime))
        usage = _key_usage(signs_certificates=True)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(federation, key, certificate)

    @property
    def fingerprint(self) -> str:
        return certificate_fingerprint(self.certificate)

    def sign(
        self,
        public_key: ec.EllipticCurvePublicKey,
        name: NodeName,
        validity: Validity,
        hosts: tuple[x509.GeneralName, ...] = (),
    ) -> x509.Certificate:
        """A certificate for `name`; `hosts` only for benchmarks that dial by address."""
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if name.role.serves:
            purposes.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        alternatives = [x509.UniformResourceIdentifier(name.uri), x509.DNSName(name.host_name), *hosts]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name.name)])
        return (
            _builder(subject, self.certificate.subject, public_key, self._key.public_key(), validity)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def approve(self, data: bytes, expected: str, lifetime: dt.timedelta = NODE_LIFETIME) -> x509.Certificate:
        """Sign a request whose fingerprint the node's operator has read out; refused on any mismatch."""
        request, name = load_request(data)
        if not same_fingerprint(expected, request_fingerprint(request)):
            raise FingerprintError(
                f"the fingerprint given is not that of this request for {name}: have its operator read it again from "
                "`parley node show`; if it still differs, the request was exchanged on its way"
            )
        if name.federation != self.federation:
            raise WrongIdentityError(
                f"the request is for federation {name.federation} and this is {self.federation}: have it made again"
            )
        if not dt.timedelta(0) < lifetime <= LONGEST_NODE_LIFETIME:
            raise CertificateError(f"a node's certificate lasts 1 to {LONGEST_NODE_LIFETIME.days} days: change --days")
        key = request.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise CertificateError("the request's key is not on an elliptic curve: make it with `parley node request`")
        validity = Validity.lasting(lifetime)
        ends = min(validity.ends, self.certificate.not_valid_after_utc)
        return self.sign(key, name, Validity(validity.begins, ends))

    def revoking(self, entries: Iterable[Entry], number: int) -> Revoked:
        """A list of revoked certificates, signed."""
        return signed(entries, number, self.certificate, self._key)

    def save(self, folder: Path, passphrase: bytes | None) -> None:
        """A new authority on disk; one that is there already is never replaced."""
        if passphrase is not None and len(passphrase) < SHORTEST_PASSPHRASE:
            raise CertificateError(f"the passphrase is short: use at least {SHORTEST_PASSPHRASE} characters")
        encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            write_private(
                folder / "authority.key", self._key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption)
            )
        except FileExistsError:
            raise CertificateError("this folder holds an authority already: choose another folder") from None
        (folder / "authority.crt").write_bytes(self.certificate.public_bytes(PEM))

    @classmethod
    def load(cls, folder: Path, passphrase: bytes | None) -> Self:
        certificate = load_certificate(read_file(folder / "authority.crt"), "authority.crt")
        data = read_private(folder / "authority.key")
        try:
            key = serialization.load_pem_private_key(data, passphrase)
        except TypeError:
            need = "is encrypted: give --passphrase-file" if passphrase is None else "has no passphrase: leave it out"
            raise CertificateError(f"authority.key {need}") from None
        except ValueError:
            raise CertificateError("authority.key cannot be opened: the passphrase is wrong, or the file") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise CertificateError("authority.key and authority.crt do not belong together: restore them from a backup")
        return cls(federation_of(certificate), key, certificate)

    def note(self, folder: Path, certificate: x509.Certificate, name: NodeName) -> None:
        """Append to the authority's register, on disk before the certificate is handed out."""
        entry = {
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "identity": name.uri,
            "serial": f"{certificate.serial_number:x}",
            "fingerprint": certificate_fingerprint(certificate),
            "expires": certificate.not_valid_after_utc.isoformat(),
            "pin": key_text(key_of(certificate.public_key())),
        }
        with (folder / "issued.jsonl").open("a") as register:
            register.write(json.dumps(entry) + "\n")
            register.flush()
            os.fsync(register.fileno())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    validity: Validity,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.begins)
        .not_valid_after(validity.ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


THROW_AWAY = "throw-away"


def identity_uri(name: str) -> str:
    """What an aggregator's certificate by a throw-away authority says it is."""
    return NodeName(THROW_AWAY, Role.aggregator, name).uri


class ThrowAwayAuthority:
    """An authority that lives as long as this object, with keys made here: benchmarks, tests and the demo only.

    A name keeps its key, and every node that it has made has pinned every other one.
    """

    def __init__(self, federation: str = THROW_AWAY, lifetime: dt.timedelta = dt.timedelta(days=1)) -> None:
        self.authority = Authority.create(federation, lifetime)
        self._lifetime = lifetime
        self._keys: dict[NodeName, ec.EllipticCurvePrivateKey] = {}
        self._held: dict[NodeName, tuple[Pin, ...]] = {}
        self._folders: list[NodeFolder] = []
        self.pins = Pins(self._held)
        """Of all that were issued, those to come included."""

    def issue(self, name: str, role: Role = Role.aggregator, validity: Validity | None = None) -> Identity:
        """A certificate for a node on this machine, dialled by identity or by loopback address."""
        return self.issue_as(NodeName(self.authority.federation, role, name), validity)

    def issue_as(self, name: NodeName, validity: Validity | None = None) -> Identity:
        """For any name, also one that a real authority would refuse; a new certificate for the key of that name."""
        if name not in self._keys:
            self.replace_key(name)
        return self._certify(name, self._keys[name], validity)

    def replace_key(self, name: NodeName) -> None:
        """Another key for that name, pinned everywhere in place of the one before."""
        self._keys[name] = ec.generate_private_key(ec.SECP256R1())
        self._held[name] = (Pin(key_of(self._keys[name].public_key())),)
        for folder in self._folders:
            self._pin(folder)

    def twin(self, name: NodeName, validity: Validity | None = None) -> Identity:
        """What an authority can do by itself: a certificate for that name and a key that nobody has pinned."""
        return self._certify(name, ec.generate_private_key(ec.SECP256R1()), validity)

    def lasting(self) -> Validity:
        return Validity.lasting(self._lifetime)

    def install(self, path: Path, name: NodeName, validity: Validity | None = None) -> NodeFolder:
        """A node's folder of identities, with pins that follow those of this authority."""
        folder = NodeFolder(path)
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        label = f"{len(list(path.glob('identities/*'))) + 1}"
        self.issue_as(name, validity).save(path / "identities" / label)
        fresh = path / "current.new"
        fresh.symlink_to(Path("identities") / label)
        fresh.replace(folder.current)
        self._folders.append(folder)
        self._pin(folder)
        return folder

    def _pin(self, folder: NodeFolder) -> None:
        trust.pin_all(
            folder,
            {name: pins[0].key for name, pins in self._held.items() if name.federation == self.authority.federation},
        )

    def _certify(self, name: NodeName, key: ec.EllipticCurvePrivateKey, validity: Validity | None) -> Identity:
        loopback = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        validity = validity or self.lasting()
        certificate = self.authority.sign(key.public_key(), name, validity, loopback)
        return Identity(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            certificate.public_bytes(PEM),
            self.authority.certificate.public_bytes(PEM),
            self.pins,
        )
