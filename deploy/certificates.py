"""Certificates: an authority, and nodes that it vouches for by a URI in the subject alternative name.

Keys are made where they are used; here both ends are on one machine only for throw-away federations (benchmarks, tests,
the demo).
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = dt.timedelta(minutes=5)
"""Against clocks that differ a little."""


@dataclass(frozen=True)
class Identity:
    """A private key and the chain that proves who holds it, all PEM."""

    key: bytes
    certificate: bytes
    authority: bytes

    def save(self, folder: Path, name: str) -> None:
        """key, certificate and authority as NAME.key (mode 600), NAME.crt and authority.crt."""
        folder.mkdir(parents=True, exist_ok=True)
        key = folder / f"{name}.key"
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        (folder / f"{name}.crt").write_bytes(self.certificate)
        (folder / "authority.crt").write_bytes(self.authority)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Identity":
        read = [(folder / file).read_bytes() for file in (f"{name}.key", f"{name}.crt", "authority.crt")]
        return cls(*read)


def identity_uri(name: str) -> str:
    """What a node's certificate says it is."""
    return f"parley://{name}"


class ThrowAwayAuthority:
    """A certificate authority that lives as long as this object, for federations on one machine."""

    def __init__(self, lifetime: dt.timedelta = dt.timedelta(days=1)) -> None:
        self._lifetime = lifetime
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "parley throw-away authority")])
        self._name = name
        self._certificate = (
            self._builder(name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + self._lifetime)
        )

    def issue(self, name: str) -> Identity:
        """A new key and certificate for a node on this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternatives = x509.SubjectAlternativeName(
            [
                x509.UniformResourceIdentifier(identity_uri(name)),
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            ]
        )
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            self._builder(subject, key.public_key())
            .add_extension(alternatives, critical=False)
            .add_extension(usage, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        return Identity(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
            certificate.public_bytes(pem),
            self._certificate.public_bytes(pem),
        )
