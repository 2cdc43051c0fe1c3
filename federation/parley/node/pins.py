"""Whose keys a node trusts: a pin is a peer's public key itself, under its name, and nothing else vouches for a peer.

    NODE/identity/pins.toml, mode 600, written by `parley pin`:
    [[pin]]
    node = "parley://cardio/aggregator/north"
    key = "02:3f1a:…"
    former = "03:91c0:…"                        # after a rotation that the operator accepted: good until then
    until = "2026-11-26T12:00:00+00:00"
    given_up = ["02:77aa:…"]                    # keys of this node that are never taken again

A key is a point of P-256, compressed: 66 hexadecimal digits, two more than a fingerprint would have, and no file has to
travel beside it. TLS gets it as a trust anchor, which is a name and a key (RFC 5280, 6.1.1): the certificate around
it is made here, its signature is nobody's and is not looked at.
"""

import datetime as dt
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from parley.federation.errors import IdentityError, NotPinnedError, PinError, PinFileError, RevokedError
from parley.federation.fields import Fields
from parley.federation.files import toml_table
from parley.federation.names import NodeName

PIN_FILE = "pins.toml"
MOST_BYTES = 1 << 22
PEM = serialization.Encoding.PEM
CURVE = ec.SECP256R1()
KEY_BYTES = 33
BEGINNING = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
NEVER = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
"""RFC 5280's way to say that a certificate has no end: a pin has one when its operator says so."""
UNREADABLE = (ValueError, x509.InvalidVersion, UnsupportedAlgorithm)
"""What the library raises for bytes that are no certificate, request or list, or of a kind that it does not know."""


def key_of(public: object) -> bytes:
    """The 33 bytes that are pinned; a PinError for a key of another kind."""
    if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name != CURVE.name:
        raise PinError("the key is of another kind than P-256: request a new certificate")
    return public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)


@lru_cache(maxsize=4096)
def public_key(key: bytes) -> ec.EllipticCurvePublicKey:
    """The inverse of `key_of`."""
    try:
        if len(key) != KEY_BYTES:
            raise ValueError("another length")
        return ec.EllipticCurvePublicKey.from_encoded_point(CURVE, key)
    except ValueError:
        raise PinError("this is not a node's key: give all 66 digits that `parley node show` prints as pin") from None


def key_text(key: bytes) -> str:
    """In groups that two people can read to each other."""
    digits = key.hex()
    return ":".join((digits[:2], *(digits[start : start + 4] for start in range(2, len(digits), 4))))


def parse_key(text: str) -> bytes:
    """What somebody typed or read out; colons, spaces and letter case aside, all digits count."""
    try:
        key = bytes.fromhex(text.replace(":", "").replace(" ", "").strip())
    except ValueError:
        key = b""
    public_key(key)
    return key


@dataclass(frozen=True)
class Pin:
    """One key of one node."""

    key: bytes
    until: dt.datetime | None = None
    """None for the key in use; of a former one, when it is no longer taken."""

    @property
    def good(self) -> bool:
        return self.until is None or dt.datetime.now(dt.UTC) < self.until


@dataclass(frozen=True)
class Pins:
    """The keys that a node trusts, its own among them."""

    held: Mapping[NodeName, Sequence[Pin]] = field(default_factory=lambda: MappingProxyType({}))
    revoked: frozenset[bytes] = frozenset()
    """Keys that the authority has revoked: no pin makes them good."""

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __iter__(self) -> Iterator[NodeName]:
        return iter(self.held)

    def of(self, name: NodeName) -> tuple[bytes, ...]:
        """The keys that are `name`'s now: one, for some days after a rotation two, or none."""
        return tuple(pin.key for pin in self._good(name))

    def _good(self, name: NodeName) -> list[Pin]:
        return [pin for pin in self.held.get(name, ()) if pin.good and pin.key not in self.revoked]

    def is_revoked(self, name: NodeName) -> bool:
        """Whether it is pinned, and none of its keys is taken for what the authority says of them."""
        return not self.of(name) and any(pin.key in self.revoked for pin in self.held.get(name, ()))

    def require(self, name: NodeName) -> tuple[bytes, ...]:
        keys = self.of(name)
        if not keys:
            raise RevokedError(name) if self.is_revoked(name) else NotPinnedError(name)
        return keys

    def with_own(self, name: NodeName, key: bytes) -> "Pins":
        return Pins(MappingProxyType({**self.held, name: (Pin(key),)}), self.revoked - {key})

    def without(self, revoked: frozenset[bytes]) -> "Pins":
        return replace(self, revoked=revoked)

    def anchors(self, *names: NodeName) -> bytes:
        """What TLS is given to trust, PEM: these nodes' keys; where none is pinned, a key that nobody has."""
        made = [anchor(name, pin) for name in names for pin in self._good(name)]
        return b"".join(made) or _nobody()


def anchor_name(key: bytes) -> x509.Name:
    """Says which key and not whose: a server names what it trusts to everybody who connects."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"parley pin {hashlib.sha256(key).hexdigest()[:40]}")])


@lru_cache(maxsize=4096)
def anchor(name: NodeName, pin: Pin) -> bytes:
    """A pinned key as a certificate to trust, PEM. It vouches for its own node's host name only."""
    subject = anchor_name(pin.key)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public_key(pin.key))
        .serial_number(1)
        .not_valid_before(BEGINNING)
        .not_valid_after(pin.until or NEVER)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(name.host_name)], None), critical=True)
        .sign(_throw_away(), hashes.SHA256())
        .public_bytes(PEM)
    )


def presented(key: ec.EllipticCurvePrivateKey, name: NodeName) -> bytes:
    """What a node shows in TLS, PEM: its name, under its own key and signed by it. No end: a pin has none."""
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if name.role.serves else [])]
    names = [x509.UniformResourceIdentifier(name.uri), x509.DNSName(name.host_name)]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name.name)]))
        .issuer_name(anchor_name(key_of(key.public_key())))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGINNING)
        .not_valid_after(NEVER)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(PEM)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs_certificates, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


@cache
def _throw_away() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(CURVE)


@cache
def _nobody() -> bytes:
    """An anchor whose key nobody has: it is thrown away here."""
    key = key_of(ec.generate_private_key(CURVE).public_key())
    return anchor(NodeName.parse("parley://nobody/coordinator/nobody"), Pin(key))


# ------------------------------------------------------------ the file


@dataclass(frozen=True)
class Entry:
    """One node in pins.toml."""

    node: NodeName
    key: bytes
    former: Pin | None = None
    given_up: tuple[bytes, ...] = ()

    @property
    def pins(self) -> tuple[Pin, ...]:
        return (Pin(self.key), *((self.former,) if self.former else ()))


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Of pins.toml; none where there is no such file, and a PinError where it is not what `parley pin` writes."""
    try:
        status = path.stat()
        data = path.read_bytes() if status.st_size <= MOST_BYTES else b"\xff"
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise PinError(f"{path.name} cannot be read: {error.strerror}") from None
    foreign = status.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0
    if foreign or stat.S_IMODE(status.st_mode) & 0o022:
        raise PinError(
            f"{path.name} can be written by others than its owner: look through `parley pin list`, then chmod 600 it"
        )
    damaged = PinError(f"{path.name} is not TOML: restore it from a backup, or pin again with `parley pin add`")
    body = toml_table(data, lambda _: damaged)
    fields = Fields(body, "", PinFileError)
    try:
        entries = tuple(_entry(each) for each in fields.tables("pin")) if fields.has("pin") else ()
        fields.finish()
        check_entries(entries)
    except PinError as error:
        raise PinError(f"{path.name}: {error}") from None
    return entries


def check_entries(entries: Sequence[Entry]) -> None:
    """One entry for a node, and one node for a key: who holds a key is one node, whatever it calls itself."""
    if len({entry.node for entry in entries}) < len(entries):
        raise PinError("a node is pinned twice: remove one of the two")
    keys: dict[bytes, NodeName] = {}
    for entry in entries:
        for pin in entry.pins:
            if (other := keys.setdefault(pin.key, entry.node)) != entry.node:
                raise PinError(f"{entry.node} and {other} are pinned to one key: ask both operators again")


def _entry(fields: Fields) -> Entry:
    try:
        node, key = NodeName.parse(fields.text("node")), parse_key(fields.text("key"))
        former = Pin(parse_key(fields.text("former")), _time(fields)) if fields.has("former") else None
        given_up = tuple(map(parse_key, fields.text_list("given_up"))) if fields.has("given_up") else ()
    except IdentityError as error:
        raise PinError(str(error)) from None
    fields.finish()
    return Entry(node, key, former, given_up)


def _time(fields: Fields) -> dt.datetime:
    try:
        found = dt.datetime.fromisoformat(fields.text("until"))
    except ValueError:
        found = dt.datetime.min
    if found.tzinfo is None:
        raise fields.refuse("until", "is not a time with its zone: let `parley pin` write this file")
    return found


def read_pins(path: Path) -> Pins:
    return Pins(MappingProxyType({entry.node: entry.pins for entry in read_entries(path)}))
